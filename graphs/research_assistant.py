"""A research assistant with two hundred tools, of which it is shown those that it looks for.

`SCALLION_MODEL` (`provider:name`) chooses the model; without it an offline scripted model plays the part.
`SCALLION_DB` is where conversations are kept.
"""

import os
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent))  # `library` lies beside this file, from wherever it is loaded

from library.offline import offline_model
from library.tools import tools
from scallion import Agent
from scallion.tools import tool_search

_, search_filter = tool_search(tools(), max_results=3)
agent = Agent(
    os.environ.get("SCALLION_MODEL") or offline_model(),
    name="research_assistant",
    filters=[search_filter],
    system_prompt=(
        "You answer questions from a library of science, art and history, and only from what its tools say. "
        + tool_search.suggested_prompt
    ),
    checkpointer=os.environ.get("SCALLION_DB", "sqlite:///scallion.db"),
)
graph = agent.graph
