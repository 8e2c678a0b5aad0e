"""`scallion db`: the schema of a database, and what is kept in it."""

import click

from scallion.cli.db.indexing import index
from scallion.cli.db.moving import import_langgraph
from scallion.cli.db.portable import export, load
from scallion.cli.db.pruning import prune
from scallion.cli.db.rekeying import rekey
from scallion.cli.db.schema import check, current, stamp, upgrade


@click.group()
def db() -> None:
    """The schema of the database, and what is kept in it."""


for command in (upgrade, check, current, stamp, prune, export, load, import_langgraph, rekey, index):
    db.add_command(command)
