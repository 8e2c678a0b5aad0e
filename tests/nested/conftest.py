"""The fixtures of the databases."""

from checkpoints.databases import database, migrated, saver, server
from nested.runs import run

__all__ = ["database", "migrated", "run", "saver", "server"]
