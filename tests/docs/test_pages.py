"""Every fenced block of the README and of `docs/` is run, compared or compiled, and every link leads somewhere."""

import re
import shutil
import sys
from pathlib import Path
from types import ModuleType

import pytest
from docs.pages import ROOT, Reader, blocks, commands, same

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
LINK = re.compile(r"\]\((?!\w+:)([^)#\s]*)(?:#([^)\s]+))?\)")
PICTURE = re.compile(r'\b(?:src|srcset)="(?!\w+:)([^"]+)"()')


def name(page: Path) -> str:
    """The page as it is known in the repository."""
    return str(page.relative_to(ROOT))


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("page", PAGES, ids=name)
def test_what_the_page_says_is_true(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Block by block, from the top, in an empty folder that has `graphs/` beside it."""
    shutil.copytree(ROOT / "graphs", tmp_path / "graphs", ignore=shutil.ignore_patterns("__pycache__"))
    for variable in ("SCALLION_DB", "SCALLION_MODEL", "SCALLION_DESK_DB"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.syspath_prepend(tmp_path)  # a block may import the file of another one
    Reader(name(page), tmp_path).read(page.read_text(encoding="utf-8"))


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_no_fence_is_missed(page: Path) -> None:
    """What looks like a fence, in whatever place, is the start or the end of a block that was found."""
    text = page.read_text(encoding="utf-8")
    fences = re.findall(r"^[ \t>]*(?:```|~~~)", text, re.MULTILINE)
    assert len(fences) == 2 * len(blocks(text))


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_lead_somewhere(page: Path) -> None:
    """To a file that is there, and to a heading in it."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    for target, anchor in LINK.findall(text) + PICTURE.findall(text):
        file = (page.parent / target).resolve() if target else page
        assert file.exists(), f"{name(page)} links to {target}"
        if anchor and file.suffix == ".md":
            assert anchor in anchors(file), f"{name(page)} links to {target}#{anchor}"


@pytest.mark.parametrize("page", [page for page in PAGES if page.parent.name == "docs"], ids=name)
def test_each_page_starts_with_something_to_run(page: Path) -> None:
    """The first block of a page is code or a command, unless the page is a list of others."""
    found = blocks(page.read_text(encoding="utf-8"))
    assert not found or found[0].language in ("python", "console", "bash") or page.stem == "benchmarks"


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[\s-]+", "-", re.sub(r"[^\w\s-]", "", heading).strip().lower()) for heading in headings}


def read(page: str, place: Path) -> list[str]:
    """What is done with the blocks of a page."""
    reader = Reader("page.md", place)
    reader.read(page)
    return reader.done


GOOD = """
```python
number = 6 * 7
print(number)  # > 42
```

```text
4…
```

- in a list

  ```console
  $ export WORD=shallot
  $ echo "one $WORD"
  one …
  $ false  # exit status 1
  ```

```python title="word.py"
WORD = "leek"
```

```bash
$ python -c "import word; print(word.WORD)"
leek
```

```python no-run
from somewhere import something
```

```python title="no-run: needs a key"
from somewhere import something
```

```
a ──► b
```
"""


def test_every_kind_of_block_is_done(tmp_path: Path) -> None:
    """Run, compared, written, compiled, or known as a drawing."""
    assert read(GOOD, tmp_path) == ["ran", "compared", "ran", "written", "ran", "compiled", "compiled", "drawing"]


def test_a_page_imports_its_own_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not what another test imported under their names, which is there again behind it."""
    others = {"leek": ModuleType("leek"), "leek.root": ModuleType("leek.root")}
    for known, module in others.items():
        monkeypatch.setitem(sys.modules, known, module)
    monkeypatch.syspath_prepend(tmp_path)
    read('```python title="leek.py"\nWHITE = 1\n```\n```python\nfrom leek import WHITE\n```', tmp_path)
    assert others.items() <= sys.modules.items()


@pytest.mark.parametrize(
    "page",
    [
        "```python\nprint(1)  #> 2\n```",
        "```python\nprint(1)  # > 2\n```",
        "```python\nprint(1)\n# > 2\n```",
        "```python\nprint(1)\n```\n```text\n2\n```",
        "```text\nof nothing\n```",
        "```console\n$ false\n```",
        "```console\n$ echo one\ntwo\n```",
        "```python no-test\n1\n```",
        "```ruby\n1\n```",
        "```\nwords only\n```",
    ],
)
def test_what_is_not_true_fails(page: str, tmp_path: Path) -> None:
    """So does a block that nothing runs."""
    with pytest.raises(AssertionError):
        read(page, tmp_path)


def test_what_does_not_run_fails(tmp_path: Path) -> None:
    """With the page and the line in the traceback."""
    with pytest.raises(ZeroDivisionError) as failure:
        read("text\n\n```python\n1 / 0\n```", tmp_path)
    last = failure.traceback[-1]
    assert (last.frame.code.raw.co_filename, last.lineno + 1) == ("page.md", 4)


def test_what_does_not_compile_fails(tmp_path: Path) -> None:
    """Also where it is not run."""
    with pytest.raises(SyntaxError):
        read("```python no-run\nif\n```", tmp_path)


@pytest.mark.parametrize("page", ["```python\n1", "```console\nls\n```"])
def test_what_cannot_be_read_fails(page: str, tmp_path: Path) -> None:
    """A fence that is not closed, a command without its mark."""
    with pytest.raises(ValueError, match=r"fence|command"):
        read(page, tmp_path)


def test_commands_go_over_lines() -> None:
    """With a backslash or a second prompt."""
    first, second = commands("$ echo one \\\n  two\none two\n$ cat <<E\n> x\n> E\nx\n")
    assert (first.text, first.expected) == ("echo one \\\n  two", "one two")
    assert (second.text, second.expected) == ("cat <<E\nx\nE", "x")


@pytest.mark.parametrize(
    ("expected", "got", "alike"),
    [
        ("a  \nb\n", "a\nb", True),
        ("a…c", "a\nb\nc", True),
        ("a", "a b", False),
        ("…b", "ab", True),
        ("a.c", "abc", False),
        ("ab…bc", "abc", False),
        ("…b…", "abc", True),
        ("…b…a", "abc", False),
    ],
)
def test_output_is_compared(expected: str, got: str, alike: bool) -> None:
    """Ends of lines do not count, and the wildcard may span lines."""
    assert same(expected, got) is alike
