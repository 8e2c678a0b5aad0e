"""An app's own Alembic in the same schema: what it finds of Scallion it leaves alone, told so as the page says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from alembic import command
from alembic.config import Config
from sqlalchemy import inspect

from scallion.sql.saver import SQLCheckpointer
from scallion.sql.schema import is_ours

PAGE = Path(__file__).parents[2] / "docs" / "persistence.md"
MODELS = """
from sqlalchemy import Column, ForeignKey, Integer, MetaData, String, Table
models = MetaData()
Table("users", models, Column("id", Integer, primary_key=True), Column("name", String(50), index=True))
"""


def snippet(prefix: str) -> str:
    """The page's own, for this prefix."""
    found = re.search(r'```python title="leaving_out.py"\n(.*?)```', PAGE.read_text(), re.DOTALL)
    assert found
    return found[1].replace("desk_", prefix)


class App:
    """A program with models and migrations of its own, made of Alembic's template."""

    def __init__(self, folder: Path, url: str, prefix: str) -> None:
        self._config = Config(folder / "alembic.ini")
        command.init(self._config, str(folder / "migrations"))
        self._config.set_main_option("script_location", str(folder / "migrations"))
        self._config.set_main_option("sqlalchemy.url", url.replace("%", "%%"))
        self._env = folder / "migrations" / "env.py"
        text = self._env.read_text().replace("fileConfig(config.config_file_name)", "pass")  # no logging of its own
        written = f"{MODELS}{snippet(prefix)}\ntarget_metadata = models\n"
        self._text = text.replace("target_metadata = None", written)

    def revise(self, *, told: bool = True) -> str:
        """The operations that are found to be missing."""
        before, after = "target_metadata=target_metadata", "target_metadata=target_metadata, include_name=include_name"
        self._env.write_text(self._text.replace(before, after) if told else self._text)
        made: Any = command.revision(self._config, "app", autogenerate=True)
        script = Path(made.path).read_text()
        return script[script.index("def upgrade") : script.index("def downgrade")]

    def upgrade(self) -> None:
        command.upgrade(self._config, "head")


@pytest.mark.parametrize("bare_database", ["file", "postgresql", "mariadb"], indirect=True)
@pytest.mark.parametrize("prefix", ["", "Desk_"])
def test_an_apps_own_alembic(bare_database: str, tmp_path: Path, prefix: str) -> None:
    with SQLCheckpointer(bare_database, prefix=prefix, auto_upgrade=True) as saver:
        saver.setup()
        app = App(tmp_path, bare_database, prefix)
        operations = app.revise()
        assert "create_table('users'" in operations
        assert "drop" not in operations
        app.upgrade()
        operations = app.revise()
        assert re.search(r"^\s*pass$", operations, re.MULTILINE), operations
        app.upgrade()
        assert saver.sessions.list().items == []
        assert f"drop_table('{prefix}sessions')" in app.revise(told=False)


@pytest.mark.parametrize("prefix", ["", "Desk_"])
def test_which_tables_are_ours(bare_database: str, prefix: str) -> None:
    with SQLCheckpointer(bare_database, prefix=prefix) as saver:
        saver.setup()
        made = inspect(saver.database.engine).get_table_names()
    assert len(made) > 5
    assert all(is_ours(name, prefix) and is_ours(name.lower(), prefix) for name in made)
    assert not any(is_ours(name, "other_") for name in made)
    assert not any(is_ours(name, prefix) for name in ("users", "alembic_version", None, "scallion", f"{prefix}users"))
