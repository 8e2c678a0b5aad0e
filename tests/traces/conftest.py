"""The fixtures of the databases."""

from checkpoints.databases import bare_database, database, migrated, saver, server

__all__ = ["bare_database", "database", "migrated", "saver", "server"]
