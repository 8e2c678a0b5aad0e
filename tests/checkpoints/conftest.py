"""The fixtures of the databases, and what of them could not be tested."""

import pytest
from checkpoints.databases import bare_database, database, migrated, saver, server, silent

__all__ = ["bare_database", "database", "migrated", "saver", "server"]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say at the end, where it is read, which databases were left out."""
    for kind, url in sorted(silent.items()):
        terminalreporter.write_line(f"NOT TESTED: {kind}: no server answers at {url}", red=True, bold=True)
