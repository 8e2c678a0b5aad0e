"""The look of all pictures: one style sheet, light and dark, after the colours of the notebook around it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files

COLOURS: Mapping[str, tuple[str, str]] = {
    "fg": ("#1f2328", "#e6e8eb"),
    "dim": ("#59626d", "#a3adb8"),
    "bg": ("#ffffff", "#15181c"),
    "soft": ("#f5f6f8", "#1e2328"),
    "line": ("#d9dde2", "#373e47"),
    "bar": ("#9aa4af", "#6b7580"),
    "good": ("#176f3d", "#6ecb8f"),
    "good-bg": ("#e4f4ea", "#14301f"),
    "changed": ("#0b5cad", "#7fb8f5"),
    "changed-bg": ("#e5f0fb", "#14283d"),
    "waiting": ("#7d4e00", "#e3b25a"),
    "waiting-bg": ("#fbf0d9", "#352811"),
    "bad": ("#b42318", "#ff9388"),
    "bad-bg": ("#fdeae8", "#3d1a17"),
}
"""In the light and in the dark; words have a contrast of 4.5 to 1 at least with whatever they stand on."""
THEIRS: Mapping[str, str] = {
    "fg": "var(--jp-content-font-color1, var(--vscode-editor-foreground, {}))",
    "bg": "var(--jp-layout-color1, var(--vscode-editor-background, {}))",
}
"""What the notebook around it is asked for first."""
LIGHT = '[data-jp-theme-light="true"], [data-theme="light"], html[theme="light"], .vscode-light'
DARK = '[data-jp-theme-light="false"], [data-theme="dark"], html[theme="dark"], .vscode-dark, .vscode-high-contrast'
"""By what JupyterLab, others, Colab and VS Code say which theme is on; without any of it the system's is taken."""
COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)


@cache
def style() -> str:
    """The style sheet, for one `<style>` in front of the pictures of an output."""
    light, dark = (f".scallion {{ {_variables(place)} }}" for place in (0, 1))
    look = files(__package__).joinpath("look.css").read_text(encoding="utf-8")
    sheets = [
        light,
        f"@media (prefers-color-scheme: dark) {{ {dark} }}",
        f":is({LIGHT}) {light}",
        f":is({DARK}) {dark}",
        look,
    ]
    return " ".join(COMMENT.sub("", "\n".join(sheets)).split())


def _variables(place: int) -> str:
    told = (f"--sca-{name}: {THEIRS.get(name, '{}').format(pair[place])};" for name, pair in COLOURS.items())
    return " ".join([*told, f"color-scheme: {('light', 'dark')[place]};"])
