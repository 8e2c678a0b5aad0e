"""Processes of the tests' own, forked from one that has imported what they need.

There is one such server for each run, and it hears what to import only before it starts: so the list is here, for all.
"""

from __future__ import annotations

import multiprocessing

processes = multiprocessing.get_context("forkserver")
processes.set_forkserver_preload(
    [
        "scallion.agent",
        "scallion.sql.saver",
        "scallion.filters",
        "scallion.testing",
        "alembic.command",
        "sqlalchemy.dialects.sqlite",
        "sqlalchemy.dialects.postgresql.psycopg",
        "sqlalchemy.dialects.mysql.pymysql",
        "psycopg",
        "pymysql",
        "langgraph.graph",
        "langchain_openai.chat_models.base",
        "langchain_anthropic.chat_models",
        "openai.resources.chat.completions",
        "openai.resources.responses",
        "httpcore2",
    ]
)
