"""A page of the documentation, taken apart into its fenced blocks, and what runs them.

| block | what is done |
|---|---|
| `python` | runs in the page's module, in order, in a folder of its own |
| `python title="name.py"` | the same, and the file is written into that folder |
| `python no-run` | compiles only: it needs a provider's key; `title="no-run: ..."` says so on the site too |
| `console`, `bash` | each `$ ` line runs in a shell that keeps its variables; the lines below it are its output |
| `text` | the output of the block before it |
| no language | a drawing |

In expected output `…` stands for anything. A comment `# > ...` in a python block is a line of its output. A command
ends with status 0 unless its comment or its output says `exit status N`.
"""

from __future__ import annotations

import ast
import contextlib
import importlib
import io
import os
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from docs import warm

ROOT = Path(__file__).parents[2]
FENCE = re.compile(r"^(?P<indent>[ \t]*)(?P<ticks>`{3,}|~{3,})(?P<info>.*)$")
FILE = re.compile(r'title="(\w+\.py)"')
DRAWN = re.compile("[─│┌└├╭╰▼▲►→]")
STATUS = re.compile(r"exit status (\d+)")
PRINTED = re.compile(r"#\s*> ?(.*)$")
RUN_TIMEOUT = 120
"""Seconds for one command."""


@dataclass(frozen=True)
class Block:
    """One fenced block; `line` is that of its first line of text, counted from 1."""

    language: str
    mark: str
    text: str
    line: int


def blocks(page: str) -> list[Block]:
    """The fenced blocks of a page in order. Raises ValueError for a fence that is not closed."""
    found: list[Block] = []
    opened: re.Match[str] | None = None
    lines: list[str] = []
    for number, line in enumerate(page.splitlines(), 1):
        fence = FENCE.match(line)
        if opened is None:
            opened, lines = fence, []
        elif fence and fence["ticks"].startswith(opened["ticks"]) and not fence["info"].strip():
            language, _, mark = opened["info"].strip().partition(" ")
            text = textwrap.dedent("\n".join(lines)) + "\n"
            found.append(Block(language, mark.strip(), text, number - len(lines)))
            opened = None
        else:
            lines.append(line)
    if opened is not None:
        raise ValueError(f"a fence is not closed: {opened.group()}")
    return found


def same(expected: str, got: str) -> bool:
    """Whether the output is the expected one, but for the ends of lines and whatever `…` stands for."""
    wanted = "\n".join(line.rstrip() for line in expected.strip().splitlines())
    given = "\n".join(line.rstrip() for line in got.strip().splitlines())
    first, *others = wanted.split("…")
    if not others:
        return given == wanted
    if not given.startswith(first) or not given.endswith(others[-1]):
        return False
    place, end = len(first), len(given) - len(others[-1])
    for part in others[:-1]:
        place = given.find(part, place, end)
        if place < 0:
            return False
        place += len(part)
    return place <= end


@dataclass(frozen=True)
class Command:
    """One command of a console block and what it prints; None where the page does not say."""

    text: str
    expected: str | None
    status: int


def commands(text: str) -> list[Command]:
    """The commands of a console block. Raises ValueError for a line that belongs to none."""
    entries: list[tuple[list[str], list[str]]] = []
    for line in text.splitlines():
        if line.startswith("$ "):
            entries.append(([line[2:]], []))
        elif not entries:
            if line.strip() and not line.startswith("#"):
                raise ValueError(f"a console block begins with a command, not {line!r}")
        elif not entries[-1][1] and (entries[-1][0][-1].endswith("\\") or line.startswith("> ")):
            entries[-1][0].append(line.removeprefix("> "))
        else:
            entries[-1][1].append(line)
    return [_command("\n".join(words), "\n".join(output).strip()) for words, output in entries]


def _command(words: str, output: str) -> Command:
    comment = words.partition(" #")[2]
    told = STATUS.search(comment) or STATUS.search(output)
    kept = "\n".join(line for line in output.splitlines() if not STATUS.fullmatch(line.strip(" #[]()")))
    return Command(words, kept or None, int(told[1]) if told else 0)


class Shell:
    """Runs one command after another, each in a process of its own; variables and folder are kept in between."""

    PREAMBLE = """
        set -a; [ -f "$KEPT" ] && source "$KEPT"; set +a
        make() { command make --no-print-directory --dry-run --directory "$ROOT" "$@" >/dev/null; }
    """
    """`make` says only whether it could: the demonstration and the tests have tests of their own."""

    def __init__(self, place: Path) -> None:
        self._place = place
        self.commands = ""
        """A folder of commands that go before those of the environment."""
        self._kept = place / ".kept"

    def run(self, command: str) -> tuple[int, str]:
        """The exit status and all output. `<id>` stands for an approval that pends: one is made if there is none."""
        if "<id>" in command:
            command = command.replace("<id>", self._pending())
        script = f'{textwrap.dedent(self.PREAMBLE)}\n{command}\nstatus=$?; export -p > "$KEPT"; exit $status'
        return self._bash(script)

    def _bash(self, script: str) -> tuple[int, str]:
        done = subprocess.run(
            ["bash", "-c", script], cwd=self._place, env=self._variables(), stdin=subprocess.DEVNULL, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=RUN_TIMEOUT,
        )  # fmt: skip
        return done.returncode, done.stdout

    def _variables(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("SCALLION", "COV"))}
        folders = [self.commands, str(Path(sys.executable).parent), os.environ.get("PATH", "")]
        path = os.pathsep.join(filter(None, folders))
        ours = {"PATH": path, "KEPT": str(self._kept), "ROOT": str(ROOT), "COLUMNS": "200", "NO_COLOR": "1"}
        return {**kept, **ours, "PYTHONUNBUFFERED": "1"}

    def _pending(self) -> str:
        pause = f"{sys.executable} {Path(__file__).with_name('pending.py')}"
        status, output = self.run(pause)
        assert status == 0, output
        return output.split()[-1]


@dataclass
class Reader:
    """Reads a page as a user would: from the top to the bottom, and does what it says."""

    name: str
    place: Path
    done: list[str] = field(default_factory=list)
    """What was done with each block, in order."""

    def __post_init__(self) -> None:
        self.shell = Shell(self.place)
        self.module = ModuleType("page_" + re.sub(r"\W", "_", self.name))
        self.output = ""
        """What the block before printed."""

    def read(self, page: str) -> None:
        """Do what every block asks for; raises AssertionError, with the line, for one that is not true."""
        found = blocks(page)
        with self._at_work([file[1] for block in found if (file := FILE.fullmatch(block.mark))]):
            for position, block in enumerate(found):
                self.done.append(self._do(block, found[position - 1] if position else None))
        assert len(self.done) == len(found)

    def _do(self, block: Block, before: Block | None) -> str:
        where = f"{self.name}:{block.line}"
        match block.language, block.mark:
            case "python", "":
                self.output = self._python(block)
                return "ran"
            case "python", title if file := FILE.fullmatch(title):
                (self.place / file[1]).write_text(block.text, encoding="utf-8")
                self.output = self._python(block)
                return "written"
            case "python", mark if mark == "no-run" or mark.startswith('title="no-run'):
                compile(block.text, where, "exec")
                return "compiled"
            case (("console" | "bash"), ""):
                self.output = self._console(block, where)
                return "ran"
            case "text", "":
                assert before is not None, f"{where}: the output of what?"
                assert before.language in ("python", "console", "bash"), f"{where}: the output of what?"
                assert same(block.text, self.output), f"{where}: it prints\n{self.output}"
                return "compared"
            case "", "":
                assert DRAWN.search(block.text), f"{where}: a block without a language is a drawing"
                return "drawing"
        raise AssertionError(f"{where}: nothing runs a block `{block.language} {block.mark}`")

    def _python(self, block: Block) -> str:
        where = f"{self.name}:{block.line}"
        tree = ast.parse(block.text, self.name)
        ast.increment_lineno(tree, block.line - 1)
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(tree, self.name, "exec"), self.module.__dict__)
        expected = [found[1] for line in block.text.splitlines() if (found := PRINTED.search(line))]
        if expected:
            assert same("\n".join(expected), printed.getvalue()), f"{where}: it prints\n{printed.getvalue()}"
        return printed.getvalue()

    def _console(self, block: Block, where: str) -> str:
        output = ""
        for command in commands(block.text):
            status, output = self.shell.run(command.text)
            assert status == command.status, f"{where}: {command.text}\nends with {status}:\n{output}"
            if command.expected is not None:
                assert same(command.expected, output), f"{where}: {command.text}\nprints\n{output}"
        return output

    @contextlib.contextmanager
    def _at_work(self, files: Sequence[str]) -> Iterator[None]:
        """In the folder, with the page as a module; what the page opened is closed at its end."""
        sys.modules[self.module.__name__] = self.module
        try:
            with contextlib.chdir(self.place), _modules_of(files), warm.command() as self.shell.commands:
                yield
        finally:
            _close(list(self.module.__dict__.values()))
            del sys.modules[self.module.__name__]


@contextlib.contextmanager
def _modules_of(files: Sequence[str]) -> Iterator[None]:
    """Modules with the names of these files are the page's own, whatever other tests imported under them."""
    others = _forget(files)
    importlib.invalidate_caches()
    try:
        yield
    finally:
        _forget(files)
        sys.modules.update(others)


def _forget(files: Sequence[str]) -> dict[str, ModuleType]:
    """Take the modules of these files, and what lies in them, out of the imported ones."""
    names = [name for name in sys.modules if f"{name.partition('.')[0]}.py" in files]
    return {name: sys.modules.pop(name) for name in names}


def _close(values: Sequence[Any]) -> None:
    """Close the savers and inboxes among these values, and those of agents."""
    for value in [*values, *(getattr(one, "checkpointer", None) for one in values if not isinstance(one, type))]:
        if hasattr(value, "database") and not isinstance(value, type):
            value.close()
