"""Makes the database of a release, in a portable form. Run once, with the code of that release:

    PYTHONPATH=RELEASE/src:tests/checkpoints/released python tests/checkpoints/released/make.py 0001

where RELEASE is a checkout of it and 0001 its revision. It writes the SQL that the release itself prints for each kind
of database, and a JSON document: the rows of a database with the threads of `threads.py`, bytes in base64, and what the
release reads from them. Commit what it wrote; it is never made again. The first was made at commit 7a8734f.
"""

from __future__ import annotations

import json
import sys
from base64 import b64encode
from contextlib import redirect_stdout
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path
from typing import Any

from sqlalchemy import select
from threads import fill, history, listed

from scallion import SQLCheckpointer
from scallion.sql import schema

HERE = Path(__file__).parent


def plain(value: Any) -> Any:
    """As JSON."""
    return {"base64": b64encode(value).decode()} if isinstance(value, bytes) else value


def main(revision: str) -> None:
    """Write the files of this revision."""
    assert revision == schema.HEAD, f"the code at hand is that of {schema.HEAD}"
    with SQLCheckpointer("sqlite://", clock=lambda: datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)) as saver:
        fill(saver)
        tables = saver.database.tables
        rows = {
            table.name: [{name: plain(value) for name, value in row._mapping.items()} for row in found]
            for table in tables.metadata.sorted_tables
            if (found := saver.database.run(lambda conn, table=table: conn.execute(select(table)).all()))
        }
        document = {"rows": rows, "history": history(saver), "listed": listed(saver)}
    (HERE / f"{revision}.json").write_text(json.dumps(document, ensure_ascii=False, indent=1) + "\n")
    for dialect in ("sqlite", "postgresql", "mysql"):
        with redirect_stdout(StringIO()) as printed:
            schema.script(tables, dialect)
        (HERE / f"{revision}.{dialect}.sql").write_text(printed.getvalue())


if __name__ == "__main__":
    main(sys.argv[1])
