"""The fixtures of the databases."""

from checkpoints.databases import database, saver

__all__ = ["database", "saver"]
