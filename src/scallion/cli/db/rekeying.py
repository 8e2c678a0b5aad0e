"""`rekey`: encrypt a database, change its key, or decrypt it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from scallion.cli.db.opened import opened

if TYPE_CHECKING:
    from scallion.sql.engines import Database


@click.command()
@click.option("--new-key-file", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="The new key.")
@click.option("--decrypt", is_flag=True, help="No key any more.")
@opened
def rekey(database: Database, new_key_file: Path | None, decrypt: bool) -> None:
    """Encrypt the database, or change its key.

    The present key is that of SCALLION_KEY, the new one is in a file: 32 random bytes, or their text. Others may go on
    meanwhile if they have both keys. After an interruption, run it again.
    """
    from scallion.sql import resealing
    from scallion.sql.cipher import cipher

    if (new_key_file is None) is not decrypt:
        raise click.UsageError("give either --new-key-file or --decrypt")
    key = _key(new_key_file.read_bytes()) if new_key_file else None
    count = resealing.rekey(database, cipher(key))
    click.echo(f"{count} thread(s) {'encrypted with the new key' if key else 'decrypted'}")


def _key(data: bytes) -> bytes | str:
    return data if len(data) == 32 else data.decode("ascii", "replace")
