"""A reader of HTML that takes nothing on trust: what is open is closed, and nothing in it acts, loads or links."""

from __future__ import annotations

from html.parser import HTMLParser

ELEMENTS = set(
    "article blockquote code del details div header ins li p pre section span style summary table tbody td th thead "
    "time title tr ul svg g path polygon rect text".split()
)
ATTRIBUTES = set(
    "aria-label class colspan d datetime dir dominant-baseline fill fill-opacity font-size height open points role rx "
    "scope stroke stroke-dasharray stroke-width style tabindex text-anchor title viewbox width x xmlns y".split()
)
"""None of these runs, loads, links or names anything."""


class Page(HTMLParser):
    """What was read: the text of the body, of the styles, and the elements with their attributes."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.styles: list[str] = []
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in ELEMENTS, tag
        assert {name for name, _ in attrs} <= ATTRIBUTES, attrs
        self.open.append(tag)
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        (self.styles if self.open and self.open[-1] == "style" else self.texts).append(data)

    def handle_comment(self, data: str) -> None:
        raise AssertionError(f"a comment: {data}")

    def handle_decl(self, decl: str) -> None:
        raise AssertionError(f"a declaration: {decl}")

    def handle_pi(self, data: str) -> None:
        raise AssertionError(f"an instruction: {data}")

    @property
    def text(self) -> str:
        """All of its words, with one space between."""
        return " ".join(" ".join(self.texts).split())


def read(html: str) -> Page:
    """The page, which is well formed, has one style, classes of ours only, and styles of numbers only."""
    html.encode("utf-8")
    page = Page(html)
    assert len(page.styles) <= 1
    for _, attributes in page.elements:
        classes = (attributes.get("class") or "").split()
        assert all(one == "scallion" or one.startswith("sca-") for one in classes), classes
        inline = attributes.get("style") or ""
        assert set(inline) <= set("abcdefghijklmnopqrstuvwxyz-:;%.0123456789"), inline
    return page
