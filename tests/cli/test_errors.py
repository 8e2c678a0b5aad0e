"""How errors are told."""

from tests.cli.command import Command


def test_all_errors_begin_alike(here: Command) -> None:
    """Also those of `db`."""
    done = here("db", "check", "--db", "nonsense")
    assert done.status == 1
    assert done.err.startswith("error: ")
