"""The command `scallion`. Each verb is imported when it is used."""

from scallion.cli.entry import main

__all__ = ["main"]
