"""JSON in the text of a model: bare, in a fence, or a block in prose. Pure functions, linear in the length of the text.

What is written a little wrong is mended where it can mean one thing only: comments, commas before a bracket, quotes and
constants of Python, line ends in strings. What is cut off is not completed, and nothing is taken out of its middle.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from json import JSONDecodeError, JSONDecoder
from typing import Any, NoReturn

WHITESPACE = " \t\r\n"

_LEAD = re.compile(r"\s*<(think|thinking|reasoning|scratchpad)>.*?</\1>", re.DOTALL | re.IGNORECASE)
_MARK = re.compile(r"[{\[]|(?P<fence>```|~~~)[ \t]*(?P<tag>[\w+.-]*)\s*")
_SCALAR = re.compile(r'"(?:[^"\\]|\\.)*"|[^\s`~]+')
_FENCE_END = re.compile(r"\s*(?:```|~~~|\Z)")
_LOOKS_LIKE_JSON = re.compile(
    r""" \{ \s* (?: ["'}] | // | /\* )
       | \[ \s* (?: ["'{\[\]\d-] | // | /\* | (?:true|false|null|True|False|None)\b )""",
    re.VERBOSE,
)
_PIECE = re.compile(
    r""" (?P<text> "(?:[^"\\]|\\.)*(?:"|\Z) )
       | (?P<quoted> '(?:[^'\\]|\\.)*(?:'|\Z) )
       | (?P<comment> //[^\n]* | /\*.*?(?:\*/|\Z) )
       | (?P<bracket> [{}\[\]] )
       | (?P<comma> , )
       | (?P<constant> \b(?:True|False|None)\b )""",
    re.VERBOSE | re.DOTALL,
)
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]|[\ud800-\udfff]")
_CONSTANTS = {"True": "true", "False": "false", "None": "null"}


class NoJSON(ValueError):
    """The text holds no JSON; says why in words for its author."""


@dataclass(frozen=True, slots=True)
class Found:
    """A JSON value in a text."""

    value: Any
    length: int
    fenced: bool = False

    @property
    def may_be_prose(self) -> bool:
        """Whether it may be a mark of prose, like the `[1]` of a citation."""
        return not self.fenced and isinstance(self.value, list) and all(type(one) in (int, float) for one in self.value)


def parse(text: str) -> Any:
    """The value of a text that is JSON and nothing else (RFC 8259), but for a byte order mark; raises NoJSON.

    Integers keep all their digits. A number that no float can hold is refused, and half a surrogate pair, which no
    UTF-8 can hold.
    """
    body = text.removeprefix("\ufeff").strip(WHITESPACE)
    if not body:
        raise NoJSON("the answer is empty")
    try:
        return _checked(body, STRICT.decode(body))
    except (ValueError, RecursionError) as error:
        raise _refusal(error) from None


def search(text: str) -> list[Found]:
    """The values in a text, in their order: the whole text, or else those in fences and blocks; raises NoJSON."""
    try:
        return [Found(parse(text), len(text))]
    except NoJSON as error:
        bare = error
    lead = _LEAD.match(text)
    begin = lead.end() if lead else 0
    found = list(_scan(text, begin))
    if not found:
        raise _broken(text, begin) or bare
    return found


def _broken(text: str, begin: int) -> NoJSON | None:
    """What is wrong with the first block that looks like JSON."""
    block = _LOOKS_LIKE_JSON.search(text, begin)
    if block is None:
        return None
    try:
        STRICT.raw_decode(text, block.start())
    except (ValueError, RecursionError) as error:
        return _refusal(error)
    return None


def _refusal(error: ValueError | RecursionError) -> NoJSON:
    if isinstance(error, JSONDecodeError):
        return NoJSON(f"it is not JSON: {error.msg} at line {error.lineno}, column {error.colno}")
    return NoJSON("it is nested too deeply" if isinstance(error, RecursionError) else f"it is not JSON: {error}")


def preferred(found: Sequence[Found]) -> Sequence[Found]:
    """Those that are meant rather than the others: in a fence, or else no mark of prose."""
    fenced = [one for one in found if one.fenced]
    blocks = [one for one in found if not one.may_be_prose]
    return fenced or blocks or found


def _scan(text: str, position: int) -> Iterator[Found]:
    """From left to right, the values behind fences and brackets. What lies inside of one is not looked at."""
    inside = ""
    while mark := _MARK.search(text, position):
        fence, position = mark["fence"] or "", mark.end()
        if fence and fence == inside and not mark["tag"]:
            inside = ""
            continue
        inside = fence or inside
        value, end = _value_at(text, position if fence else mark.start(), is_fenced=bool(fence))
        position = max(position, end)
        closing = _FENCE_END.match(text, position) if fence else None
        if value is not None and (closing or isinstance(value.value, dict | list)):
            yield replace(value, fenced=bool(fence))
        if value is not None and closing:
            inside, position = "", closing.end()


def _value_at(text: str, start: int, *, is_fenced: bool) -> tuple[Found | None, int]:
    """The value that begins here, if one does, and where to look on. In prose it is one in brackets."""
    if _LOOKS_LIKE_JSON.match(text, start):
        end = _block_end(text, start)
        return _read(text[start:end]), end
    if is_fenced and (scalar := _SCALAR.match(text, start)) and (value := _read(scalar.group())):
        return value, scalar.end()
    return None, start


def _read(block: str) -> Found | None:
    for decoder, write in ((STRICT, str), (LENIENT, mend)):
        try:
            return Found(_checked(block, decoder.decode(write(block))), len(block))
        except (ValueError, RecursionError):
            continue
    return None


def _block_end(text: str, start: int) -> int:
    """Where the bracket that opens here is closed; the end of the text if it is not."""
    depth = 0
    for piece in _PIECE.finditer(text, start):
        if piece.lastgroup == "bracket":
            depth += 1 if piece.group() in "{[" else -1
            if depth == 0:
                return piece.end()
    return len(text)


def mend(block: str) -> str:
    """The block in the words of JSON: without comments and commas before a bracket, with its quotes and constants."""
    pieces: list[str] = []
    comma: int | None = None
    position = 0
    for piece in _PIECE.finditer(block):
        between = block[position : piece.start()]
        kind, word = piece.lastgroup, piece.group()
        if comma is not None and kind == "bracket" and word in "}]" and not between.strip():
            pieces[comma] = ""
        if kind != "comment" or between.strip():
            comma = None
        pieces += [between, _MENDED.get(kind or "", str)(word)]
        if kind == "comma":
            comma = len(pieces) - 1
        position = piece.end()
    return "".join([*pieces, block[position:]])


def _requoted(word: str) -> str:
    def escape(match: re.Match[str]) -> str:
        return {"\\'": "'", '"': '\\"'}.get(match.group(), match.group())

    return '"' + re.sub(r'\\.|"', escape, word[1:-1], flags=re.DOTALL) + '"'


_MENDED: dict[str, Callable[[str], str]] = {
    "quoted": _requoted,
    "comment": lambda word: " ",
    "constant": _CONSTANTS.__getitem__,
}


def _checked(source: str, value: Any) -> Any:
    """The value; raises ValueError where it holds half a surrogate pair, as an escape or as it is."""
    if _SURROGATE.search(source):
        try:
            json.dumps(value, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            raise ValueError("it holds half of a surrogate pair") from None
    return value


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no number of JSON")


def _number(digits: str) -> float:
    number = float(digits)
    if number in (float("inf"), float("-inf")):
        raise ValueError("a number is too large")
    return number


STRICT = JSONDecoder(parse_constant=_refuse, parse_float=_number)
LENIENT = JSONDecoder(parse_constant=_refuse, parse_float=_number, strict=False)
