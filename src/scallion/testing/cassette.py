"""A cassette: requests and the replies that a model gave, in a readable JSON file."""

from __future__ import annotations

import json
import os
import threading
from difflib import SequenceMatcher, unified_diff
from pathlib import Path
from typing import Any

from scallion.errors import ConfigurationError, ScallionError

VERSION = 1
SHOWN = 40
"""Lines of a difference that an error shows."""


class CassetteMiss(ScallionError):
    """A cassette has no reply to a request; `difference` is that to the nearest one, as a unified diff."""

    def __init__(self, message: str, request: Any, nearest: Any = None, difference: str = "") -> None:
        self.request = request
        self.nearest = nearest
        self.difference = difference
        super().__init__(message + (f":\n{difference}" if difference else ""))


class Cassette:
    """The exchanges of one file, each `{"request": ..., "reply": ...}`, and which were given already."""

    def __init__(self, path: Path, *, records: bool, again: bool) -> None:
        self.path = path
        self.profile: dict[str, Any] = {}
        self.exchanges: list[dict[str, Any]] = []
        self._given: set[int] = set()
        self._lock = threading.Lock()
        if path.is_dir():
            raise ConfigurationError(f"{path} is a folder: name the file of the cassette")
        if path.exists() and not again:
            self._read()
        elif not records:
            raise ConfigurationError(f"there is no cassette {path}: give ReplayModel(records=...) a model to record it")

    @property
    def unused(self) -> list[dict[str, Any]]:
        """The exchanges that were not asked for."""
        return [one for at, one in enumerate(self.exchanges) if at not in self._given]

    def take(self, request: Any) -> dict[str, Any] | None:
        """The next reply to this request, each given once; None where there is none, or no other."""
        with self._lock:
            for at, one in enumerate(self.exchanges):
                if at not in self._given and one["request"] == request:
                    self._given.add(at)
                    return dict(one["reply"])
        return None

    def keep(self, request: Any, reply: Any) -> None:
        """Add an exchange that was just given, and write the file."""
        with self._lock:
            self._given.add(len(self.exchanges))
            self.exchanges.append({"request": request, "reply": reply})
            self._write()

    def miss(self, request: Any) -> CassetteMiss:
        """The error of a request that there is no reply to."""
        if same := sum(one["request"] == request for one in self.exchanges):
            told = f"cassette {self.path} has {same} reply(s) to this request, and it was made once more"
            return CassetteMiss(told, request, request)
        lines = _lines(request)
        nearest = max(
            self.unused or self.exchanges, key=lambda one: _likeness(_lines(one["request"]), lines), default=None
        )
        if nearest is None:
            return CassetteMiss(f"cassette {self.path} is empty", request)
        number = self.exchanges.index(nearest) + 1
        told = f"cassette {self.path} has no reply to this request; the nearest is that of exchange {number}"
        return CassetteMiss(told, request, nearest["request"], _difference(nearest["request"], request))

    def _read(self) -> None:
        try:
            held = json.loads(self.path.read_text(encoding="utf-8"))
            version, exchanges = held["version"], held["exchanges"]
            whole = all({"request", "reply"} <= one.keys() and isinstance(one["reply"], dict) for one in exchanges)
            whole = whole and isinstance(held.get("profile") or {}, dict)
        except (ValueError, KeyError, TypeError, AttributeError):
            raise ConfigurationError(f"{self.path} is no cassette: record it again") from None
        if not whole:
            raise ConfigurationError(f"{self.path} is no cassette: record it again")
        if version != VERSION:
            raise ConfigurationError(f"{self.path} is a cassette of version {version}, not {VERSION}: record it again")
        self.exchanges, self.profile = exchanges, held.get("profile") or {}

    def _write(self) -> None:
        held = {"version": VERSION, "profile": self.profile, "exchanges": self.exchanges}
        self.path.parent.mkdir(parents=True, exist_ok=True)
        draft = self.path.with_name(f".{self.path.name}.{os.getpid()}")
        # Half of a surrogate pair, which UTF-8 does not have, stands as the escape that it is in JSON.
        text = json.dumps(held, indent=2, ensure_ascii=False) + "\n"
        whole = text.isascii() or text == text.encode("utf-8", "replace").decode("utf-8")
        draft.write_text(text if whole else json.dumps(held, indent=2) + "\n", encoding="utf-8")
        draft.replace(self.path)


def _lines(request: Any) -> list[str]:
    return json.dumps(request, indent=1, ensure_ascii=False, sort_keys=True).splitlines()


def _likeness(one: list[str], other: list[str]) -> float:
    return SequenceMatcher(None, one, other, autojunk=False).ratio()


def _difference(recorded: Any, asked: Any) -> str:
    lines = list(unified_diff(_lines(recorded), _lines(asked), "recorded", "asked", n=2, lineterm=""))
    shown = [line if len(line) <= 200 else line[:199] + "…" for line in lines[:SHOWN]]
    return "\n".join([*shown, f"… {len(lines) - SHOWN} more lines"] if len(lines) > SHOWN else shown)
