"""The library that checks JSON schemas: what it imports, and that no format is lost by it."""

import subprocess
import sys
from importlib.util import find_spec

import pytest

pytestmark = pytest.mark.skipif(find_spec("rfc3987_syntax") is None, reason="the grammar of IRIs is not installed")

USES = {
    "a decision": "from scallion.approvals.schemas import validator; validator({'format': 'email'}).is_valid('a@b')",
    "a rule": "from scallion.approvals.patterns import check; check({'format': 'email'}, allows=False)",
    "an answer": "from scallion.filters.schema.json_schema import Schema; Schema({}, check_formats=True).read(1)",
}
CHECKED = """
import sys
from scallion.approvals.schemas import validator
find = lambda kind, text: validator({"format": kind}).is_valid(text)
assert find("email", "a@b") and not find("email", "a")
assert "lark" not in sys.modules
assert find("iri", "https://örtchen.example/a") and not find("iri", "a b")
assert find("iri-reference", "a") and not find("iri-reference", "a b")
import rfc3987_syntax
assert rfc3987_syntax.parse and "lark" in sys.modules
"""
SHARED = """
from jsonschema import Draft7Validator as Theirs
from scallion.approvals.schemas import library
assert library().Draft7Validator is Theirs
assert not Theirs({"format": "iri"}, format_checker=Theirs.FORMAT_CHECKER).is_valid("a b")
"""
AT_ONCE = """
import sys, threading
from scallion.approvals.schemas import validator
def check(): found.append(validator({"format": "iri"}).is_valid("a b"))
found = []
threads = [threading.Thread(target=check) for _ in range(8)]
for one in threads: one.start()
for one in threads: one.join()
assert found == [False] * 8, found
"""


def run(program: str) -> None:
    """In a process of its own, as what is imported stays."""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_the_grammar_of_iris_is_not_built_for_what_has_none(use: str) -> None:
    """It takes longer than everything else that a decision does."""
    run(f"import sys; {use}; assert not {{'lark', 'rfc3987_syntax'}} & {{*sys.modules}}")


@pytest.mark.parametrize("program", [CHECKED, SHARED, AT_ONCE], ids=["later", "imported before", "at once"])
def test_iris_are_checked(program: str) -> None:
    """By the library's own rule, built when it is needed, whoever imported what first."""
    run(program)
