"""The shape of the source: which way imports go, how long files and functions are, what things are called."""

import ast
import statistics
from collections.abc import Iterator
from pathlib import Path

import pytest

import scallion

SOURCE = Path(__file__).parents[1] / "src" / "scallion"
FILES = sorted(SOURCE.rglob("*.py"))

LAYERS = """
    errors shown values events tracing bridge approvals history models search growing pii filters tools loop course
    recording turn assembly stack settling holding elsewhere threads streaming options cancelling while_paused nesting
    session agent notebook cli
""".split()
"""A unit imports itself and what stands before it."""

ASIDE = {
    "sql": {"errors", "shown", "values", "tracing", "approvals", "bridge", "notify"},
    "inbox": {"errors", "values", "approvals", "sql"},
    "notify": {"errors"},
    "inspect": {"errors", "values", "events", "tracing", "approvals"},
    "testing": {"errors", "values", "events", "filters", "loop", "sql", "agent"},
}
"""Units beside the layers, and all that they may import."""

USES_ASIDE = {
    "shown": {"inspect"},
    "assembly": {"sql"},
    "session": {"inspect"},
    "agent": {"sql", "inspect"},
    "notebook": {"sql", "inbox", "inspect"},
    "cli": {"sql", "inbox", "inspect", "notify"},
}
"""Who may import them: the agent turns a URL into a saver; for everyone else a saver is handed in.

`shown` imports `inspect` when somebody looks at a value in a notebook: values that draw themselves stay light.
"""

THIRD_PARTY = {
    "rich": {"cli", "inspect"},
    "sqlalchemy": {"sql", "inbox", "cli", "bridge"},
    "alembic": {"sql", "cli"},
    "click": {"cli"},
    "mmdr": {"inspect"},
}

BANNED = {"utils", "util", "core", "base", "helpers", "helper", "manager", "factory", "common", "misc"}


def unit(file: Path) -> str:
    """The name of the unit: the folder or file right below `scallion`."""
    return file.relative_to(SOURCE).with_suffix("").parts[0]


def test_the_page_of_the_architecture_has_the_whole_tree() -> None:
    page = (SOURCE.parents[1] / "docs" / "architecture.md").read_text(encoding="utf-8")
    tree = [line.split()[1] for line in page.splitlines() if line.startswith(("├─", "└─"))]
    told = {one.removesuffix("/").removesuffix(".py") for one in tree}
    assert told == {unit(file) for file in FILES} - {"__init__"}


def imports(file: Path) -> Iterator[str]:
    """The dotted names that a file imports when it runs, lazily or not; type-checking imports are free."""
    tree = ast.parse(file.read_text())
    free = {inner for node in ast.walk(tree) if _is_typing(node) for inner in ast.walk(node)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import) and node not in free:
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node not in free:
            assert node.level == 0, f"{file}:{node.lineno} is a relative import"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _is_typing(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING")


def _unit_of(name: str) -> str:
    """The unit that `from scallion import name` reaches."""
    return name if name in {unit(file) for file in FILES} else getattr(scallion, name).__module__.split(".")[1]


def functions() -> Iterator[tuple[Path, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """Every function of the source with its file, inner ones too."""
    for file in FILES:
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield file, node


def length(node: ast.AST) -> int:
    """Lines from the name to the end."""
    return node.end_lineno - node.lineno + 1


def allowed(name: str) -> set[str]:
    """The units of scallion that the unit may import."""
    if name in ASIDE:
        return ASIDE[name] | {name}
    return {*LAYERS[: LAYERS.index(name) + 1], *USES_ASIDE.get(name, ())}


def test_every_unit_has_its_place() -> None:
    """A new folder or file below `scallion` is put into the drawing first."""
    known = {*LAYERS, *ASIDE, "__init__", "__main__"}
    assert {unit(file) for file in FILES} <= known


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(SOURCE)))
def test_imports_go_one_way(file: Path) -> None:
    """`cli → agent → turn → loop → filters → values → errors`, and a saver is handed in."""
    name = unit(file)
    if name in ("__init__", "__main__"):
        return
    ours = [dotted.split(".") for dotted in imports(file) if dotted.split(".")[0] == "scallion"]
    assert {_unit_of(parts[1]) for parts in ours if len(parts) > 1} <= allowed(name)


@pytest.mark.parametrize("library", THIRD_PARTY)
def test_libraries_stay_in_their_place(library: str) -> None:
    """The terminal is drawn in two units, the database is spoken to in three."""
    users = {unit(file) for file in FILES if any(dotted.split(".")[0] == library for dotted in imports(file))}
    assert users <= THIRD_PARTY[library]


def test_files_are_small() -> None:
    """No file above 400 lines."""
    long = {str(file): lines for file in FILES if (lines := len(file.read_text().splitlines())) > 400}
    assert not long


def test_functions_are_short() -> None:
    """None above 80 lines, and half of them below ten."""
    lengths = {f"{file.name}:{node.lineno} {node.name}": length(node) for file, node in functions()}
    assert not {name: lines for name, lines in lengths.items() if lines > 80}
    assert statistics.median(lengths.values()) < 10


def test_names_say_the_subject() -> None:
    """No module is called utils or the like."""
    names = {part.strip("_") for file in FILES for part in file.relative_to(SOURCE).with_suffix("").parts}
    assert not names & BANNED


def test_what_is_public_is_described() -> None:
    """Every module, and every class and function at its top without an underscore, has a docstring."""
    silent = []
    for file in FILES:
        tree = ast.parse(file.read_text())
        kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
        nodes = [node for node in tree.body if isinstance(node, kinds) and not node.name.startswith("_")]
        silent += [f"{file}:{node.lineno} {node.name}" for node in nodes if not ast.get_docstring(node)]
        silent += [str(file)] if tree.body and not ast.get_docstring(tree) else []
    assert not silent
