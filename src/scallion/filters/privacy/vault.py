"""Tokens that stand for values: numbered by type, the same for the same value of a thread, and restored from it.

What a token stands for is kept in the state of its filter, sealed with AES-GCM under a key of that thread's own.
"""

from __future__ import annotations

import os
import re
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from hashlib import blake2b
from typing import Any

from scallion.errors import ConfigurationError, WrongKey

TOKEN = re.compile(r"<([A-Za-z][A-Za-z0-9_]*)_([1-9][0-9]{0,8})_[a-z]{4}>")
"""Its type, its number, and the mark of its thread and its value.

A token of another thread stands for nothing, and no other value has the same one, whatever became of the numbers: a
thread may be rewound, or deleted and begun again, and a rule or a cached answer from before is not about somebody else.
"""
SEALED = re.compile(r"<([A-Za-z][A-Za-z0-9_]*)_sealed:([A-Za-z0-9_-]+)>")
"""What waits for its turn: no token can be given before."""
NONCE = 12


def sealing(key: bytes, salt: str, name: str) -> Any:
    """The cipher of one thread; raises ConfigurationError where the module is missing."""
    try:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    except ImportError:
        told = "tokenise needs the module cryptography: pip install 'scallion[encryption]'"
        raise ConfigurationError(f"filter {name!r}: {told}") from None
    return AESGCM(blake2b(salt.encode(), key=key, digest_size=32, person=b"scallion pii").digest())


def _seal(cipher: Any, value: str, token: str) -> str:
    nonce = os.urandom(NONCE)
    sealed = nonce + cipher.encrypt(nonce, value.encode("utf-8", "surrogatepass"), token.encode())
    return b64encode(sealed, altchars=b"-_").decode().rstrip("=")


def _open(cipher: Any, sealed: str, token: str) -> str:
    from cryptography.exceptions import InvalidTag

    data = b64decode(sealed + "=" * (-len(sealed) % 4), altchars=b"-_")
    try:
        return str(cipher.decrypt(data[:NONCE], data[NONCE:], token.encode()).decode("utf-8", "surrogatepass"))
    except InvalidTag:
        raise WrongKey(f"what {token} stands for was sealed with another key") from None


def begun(key: bytes, state: Any, thread: str | None) -> None:
    """Give a thread its salt and its mark, before calls run side by side: they do not see each other's.

    That of a thread is made of its name, so that its tokens are known before; what has no thread of its own has another
    one each time.
    A fork keeps the salt, which what it took over is sealed with, and has a mark of its own.
    """
    salt = state.get("salt") or (_digest(key, thread).hex() if thread else os.urandom(16).hex())
    mark = _digest(key, f"{salt} {thread}").hex()
    if (salt, mark) != (state.get("salt"), state.get("mark")):
        state.update(salt=salt, mark=mark)


def _digest(key: bytes, text: str) -> bytes:
    return blake2b(text.encode("utf-8", "surrogatepass"), key=key, digest_size=16, person=b"scallion thread").digest()


class Vault:
    """The tokens of one thread, as one call sees them; calls that run side by side have numbers of their own."""

    def __init__(self, key: bytes, state: Any, name: str, share: tuple[int, int]) -> None:
        self._key = key
        self._state = state
        self._name = name
        self._place, self._step = share
        self._known: dict[str, str] | None = None
        self._tokens: dict[str, str] = {}
        self._last: dict[str, int] = {}
        self._new: dict[str, str] = {}

    def token(self, kind: str, value: str) -> str:
        """The token for the value: the one that it has, or a new one."""
        known = self._load()
        found = self._tokens.get(f"{kind}:{value}")
        if found is not None:
            return found
        number = self._last.get(kind, self._first(kind)) + self._step
        self._last[kind] = number
        mark = _digest(self._key, f"{self._state['mark']} {kind}:{value}")[:4]
        token = f"<{kind}_{number}_{''.join(chr(ord('a') + one % 26) for one in mark)}>"
        known[token] = value
        self._tokens[f"{kind}:{value}"] = token
        self._new[token] = _seal(self._cipher(), value, token)
        return token

    def keep(self) -> None:
        """Keep the new tokens in the state."""
        if self._new:
            new, self._new = self._new, {}
            self._state.update(vault=new)

    def restored(self, text: str) -> str:
        """The text with the values in the place of their tokens; a token that was not given stays."""
        if "<" not in text:
            return text
        return TOKEN.sub(lambda found: self._load().get(found[0], found[0]), text)

    def value(self, value: Any) -> Any:
        """Plain data with the values in the place of their tokens."""
        if isinstance(value, str):
            return self.restored(value)
        if isinstance(value, Mapping):
            return {self.value(key): self.value(part) for key, part in value.items()}
        return type(value)(map(self.value, value)) if isinstance(value, list | tuple) else value

    def _first(self, kind: str) -> int:
        """What the numbers of that type begin behind: those of a batch lie as far apart as it has calls."""
        numbers = [int(found[2]) for one in self._load() if (found := TOKEN.fullmatch(one)) and found[1] == kind]
        return max(numbers, default=0) + 1 + self._place - self._step

    def _cipher(self) -> Any:
        return sealing(self._key, self._state["salt"], self._name)

    def _load(self) -> dict[str, str]:
        if self._known is None:
            kept = self._state.get("vault") or {}
            cipher = self._cipher() if kept else None
            self._known = {token: _open(cipher, sealed, token) for token, sealed in kept.items()}
            for token, value in self._known.items():
                kind = token[1:].rsplit("_", 2)[0]
                self._tokens.setdefault(f"{kind}:{value}", token)
        return self._known


class Waiting:
    """Values that wait for their turn stand sealed in the text itself."""

    def __init__(self, key: bytes, name: str) -> None:
        self._cipher: Callable[[], Any] = lambda: sealing(key, "waiting", name)

    def token(self, kind: str, value: str) -> str:
        """What stands in the text for the value."""
        return f"<{kind}_sealed:{_seal(self._cipher(), value, kind)}>"

    def opened(self, text: str) -> str:
        """The text as it was; what was not sealed here stays."""
        if "_sealed:" not in text:
            return text
        return SEALED.sub(self._value, text)

    def _value(self, found: re.Match[str]) -> str:
        try:
            return _open(self._cipher(), found[2], found[1])
        except (WrongKey, ValueError):
            return found[0]
