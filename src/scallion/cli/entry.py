"""Where the command starts and how it ends: 0 done, 3 paused, 1 error (one line, no traceback), 2 usage."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from io import TextIOWrapper

import click

from scallion.cli.failure import DONE, ERROR, describe, failed
from scallion.cli.output import let_go
from scallion.cli.verbs import scallion


def main(args: Sequence[str] | None = None) -> int:
    """Run one verb and return the exit status."""
    _never_fail_to_print()
    try:
        status = scallion.main(args, prog_name="scallion", standalone_mode=False)
        sys.stdout.flush()
        return status if isinstance(status, int) else DONE
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        return failed("interrupted")
    except BrokenPipeError:
        let_go()
        return ERROR
    except Exception as error:
        return failed(describe(error))


def _never_fail_to_print() -> None:
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
