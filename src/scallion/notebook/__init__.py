"""Notebooks: cards with buttons, a turn that is seen while it streams, magics. Needs the extra `notebook`."""

from scallion.notebook.buttons import Panel, panel
from scallion.notebook.live import arun, awatch, run, watch

__all__ = ["Panel", "arun", "awatch", "panel", "run", "watch"]
