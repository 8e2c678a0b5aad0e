"""Runs the migrations on the connection that the caller opened and locked."""

from __future__ import annotations

from alembic import context
from sqlalchemy.schema import CreateSchema

settings = context.config.attributes
tables = settings["tables"]

options = {
    "target_metadata": tables.metadata,
    "version_table": tables.version_table,
    "version_table_schema": tables.schema,
    "transactional_ddl": False,  # the caller's transaction holds it all
    "render_as_batch": True,
}

if context.is_offline_mode():
    context.configure(dialect_name=settings["dialect"], literal_binds=True, **options)
    if tables.schema and context.get_starting_revision_argument() is None:
        context.execute(CreateSchema(tables.schema, if_not_exists=True))
else:
    context.configure(connection=settings["connection"], **options)

context.run_migrations()
