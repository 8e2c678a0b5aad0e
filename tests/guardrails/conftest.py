"""The databases of the checkpointer's tests."""

# Fixtures, used by name.
from checkpoints.databases import bare_database, database, migrated, saver, server

__all__ = ["bare_database", "database", "migrated", "saver", "server"]
