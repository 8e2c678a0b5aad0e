"""Eight things to do with each of the 25 kinds: two hundred tools."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from langchain_core.tools import BaseTool, StructuredTool

from library.holdings import KINDS, Kind


def tools() -> list[BaseTool]:
    """All of them."""
    return [
        StructuredTool.from_function(function, name=name, description=f"{description} ({kind.meaning})")
        for kind in KINDS
        for name, description, function in [*_of_one(kind), *_of_many(kind)]
    ]


Said = Iterator[tuple[str, str, Callable[..., str]]]


def _of_one(kind: Kind) -> Said:
    one = kind.one.replace("_", " ")

    def describe(name: str) -> str:
        return str(kind.named(name))

    def date(name: str) -> str:
        return f"{name}: {kind.named(name).year}"

    def cite(name: str) -> str:
        thing = kind.named(name)
        return f"{thing.name}. In: The library of {kind.many.replace('_', ' ')}, {thing.year}."

    def newest() -> str:
        return str(max(kind.things, key=lambda thing: thing.year))

    yield f"describe_{kind.one}", f"Tell what is known about one {one}.", describe
    yield f"date_{kind.one}", f"Tell the year of one {one}.", date
    yield f"cite_{kind.one}", f"Make a reference to one {one}, to put under a text.", cite
    yield f"newest_{kind.one}", f"Tell which {one} of all is the latest.", newest


def _of_many(kind: Kind) -> Said:
    many = kind.many.replace("_", " ")

    def find(words: str) -> str:
        asked = {word for word in words.casefold().split() if len(word) > 3}
        found = [str(thing) for thing in kind.things if asked & set(str(thing).casefold().split())]
        return "\n".join(found) or f"no {many} with these words"

    def compare(first: str, second: str) -> str:
        older, younger = sorted((kind.named(first), kind.named(second)), key=lambda thing: thing.year)
        return f"{older.name} is {younger.year - older.year} years older than {younger.name}"

    def count() -> str:
        return f"{len(kind.things)} {many}"

    def timeline(since: int = 0) -> str:
        listed = sorted((thing for thing in kind.things if thing.year >= since), key=lambda thing: thing.year)
        return "\n".join(map(str, listed)) or f"no {many} since {since}"

    yield f"find_{kind.many}", f"Find {many} by words in what is known about them.", find
    yield f"compare_{kind.many}", f"Compare two {many}: which is older, and by how much.", compare
    yield f"count_{kind.many}", f"Count how many {many} the library has.", count
    yield f"timeline_of_{kind.many}", f"List {many} in the order of their years, all or since a year.", timeline
