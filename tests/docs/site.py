"""The site of the documentation, as it was built: its pages, what they link to, and what they load."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LOADED = {
    "script": "src",
    "img": "src",
    "iframe": "src",
    "source": "src",
    "video": "src",
    "audio": "src",
    "use": "href",
}
"""Elements that make a browser load something, each with the attribute that names it."""
POINTS = ("canonical", "next", "prev", "alternate")
"""Relations of a `link` that load nothing."""


@dataclass
class Built(HTMLParser):
    """What is to be known of one page."""

    ids: set[str] = field(default_factory=set)
    links: list[str] = field(default_factory=list)
    loads: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what the element is called, links to or loads."""
        given = {name: value or "" for name, value in attrs}
        self.ids |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        if tag == "link" and given.get("rel") not in POINTS:
            self.loads.append(given.get("href", ""))
        if (loaded := given.get(LOADED.get(tag, ""))) is not None:
            self.loads.append(loaded)


def faults(site: Path) -> list[str]:
    """What is wrong with the site: links that lead nowhere, anchors that are not there, what others would serve."""
    pages = {path: _read(path) for path in sorted(site.rglob("*.html"))}
    assert pages, f"there are no pages in {site}"
    return [fault for path, page in pages.items() if path.name != "404.html" for fault in _faults(path, page, pages)]


def _read(path: Path) -> Built:
    page = Built()
    page.feed(path.read_text(encoding="utf-8"))
    return page


def _faults(path: Path, page: Built, pages: dict[Path, Built]) -> list[str]:
    found = [f"{path.name} loads {url}" for url in page.loads if not _is_here(path, url)]
    for url in page.links:
        parts = urlsplit(url)
        if parts.scheme or parts.netloc:  # a link to elsewhere loads nothing
            continue
        target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
        target = target / "index.html" if target.is_dir() else target
        if not target.is_file():
            found.append(f"{path.name} links to {url}, which is not there")
        elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].ids:
            found.append(f"{path.name} links to {url}, which has no such place")
    return found


def _is_here(path: Path, url: str) -> bool:
    parts = urlsplit(url)
    if parts.scheme == "data":
        return True
    return not parts.scheme and not parts.netloc and (path.parent / unquote(parts.path)).is_file()
