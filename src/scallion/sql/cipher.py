"""Encryption of what is stored: AES-GCM with keys that can be changed, each value bound to its place.

A sealed value is a mark (1 byte), the id of its key (8), a nonce (12), the ciphertext and its tag (16). Its place
(table, column, session and key of the row) is authenticated with it: a value moved to another row does not open.
Nonces are random, so that one key serves for 2^32 values (NIST SP 800-38D, 8.3); then it is time to change it.
"""

from __future__ import annotations

import os
import re
from base64 import b64decode, b64encode
from binascii import Error as NotBase64
from collections.abc import Sequence
from hashlib import blake2b
from itertools import pairwise
from typing import Any

from scallion.errors import ConfigurationError, WrongKey

KEY, ID, NONCE, TAG = 32, 8, 12, 16
"""Lengths in bytes."""
MARK = b"\xc1"
"""What a sealed value begins with, and no msgpack does."""
TEXT_MARK = "sealed:"
PARTS = (0, 1, 1 + ID, 1 + ID + NONCE, None)
"""Where mark, id, nonce and the rest of a sealed value begin."""
ITEM = "items.data"
"""The place of values that may be any bytes, also those of a mark."""
DECRYPTING = "-"
"""Put in front of the id of a key with which a database is just being decrypted."""

Place = tuple[str | int, ...]
"""Where a value lies: "table.column", the number of the session, the row's key."""


class Cipher:
    """What stores values as they are: the cipher of a database without a key."""

    ids: Sequence[str] = ()
    """The ids of the keys."""
    current: str | None = None
    """The id of the key for new values: the first one, until `turn_to` chooses another."""
    overhead = 0
    """How many bytes longer sealed data is."""

    def seal(self, data: bytes, *place: str | int) -> bytes:
        """What is stored in that place for the data."""
        return data

    def open(self, data: bytes, *place: str | int) -> bytes:
        """The data. Raises WrongKey for what was not sealed for that place by one of the keys."""
        if data.startswith(MARK) and place[0] != ITEM:
            raise WrongKey(f"a value in {place[0]} is encrypted: give key=...")
        return data

    def seal_text(self, text: str, *place: str | int) -> str:
        """As `seal`."""
        return text

    def open_text(self, text: str, *place: str | int) -> str:
        """As `open`."""
        if _bytes(text).startswith(MARK):
            raise WrongKey(f"a value in {place[0]} is encrypted: give key=...")
        return text

    def digests(self, hash: bytes, session: int) -> list[bytes]:
        """What may stand for the hash of an item in the session: the digest for new items first."""
        return [hash]

    def has(self, id: str | None) -> bool:
        """Whether it can seal with the key of this id."""
        return id is None

    def turn_to(self, id: str | None) -> bool:
        """Seal with the key of this id from here on, which the database has as long as a transaction holds it.

        False if it is not there.
        """
        return self.has(id)

    def knows(self, data: bytes) -> bool:
        """Whether it may have sealed this."""
        return True


PLAIN = Cipher()


class AesGcm(Cipher):
    """Seals with one of the keys, opens with any of them."""

    overhead = len(MARK) + ID + NONCE + TAG

    def __init__(self, keys: Sequence[bytes]) -> None:
        try:
            from cryptography.hazmat.primitives.ciphers.aead import AESGCM
        except ImportError:
            raise ConfigurationError(
                "key=... needs the module cryptography: pip install 'scallion[encryption]'"
            ) from None
        self._ciphers = {_id(key): AESGCM(key) for key in keys}
        self._digests = {_id(key).hex(): blake2b(key=key, person=b"scallion digests").digest() for key in keys}
        self.ids = list(self._digests)
        self.current: str = self.ids[0]

    def seal(self, data: bytes, *place: str | int) -> bytes:
        """As the cipher that it replaces."""
        nonce, id = os.urandom(NONCE), bytes.fromhex(self.current)
        return MARK + id + nonce + self._ciphers[id].encrypt(nonce, data, _bound(place))

    def open(self, data: bytes, *place: str | int) -> bytes:
        """As the cipher that it replaces."""
        from cryptography.exceptions import InvalidTag

        mark, id, nonce, sealed = (data[start:end] for start, end in pairwise(PARTS))
        cipher = self._ciphers.get(id) if mark == MARK else None
        if cipher is None:
            raise WrongKey(f"a value in {place[0]} is not encrypted with any of the given keys: {', '.join(self.ids)}")
        try:
            return cipher.decrypt(nonce, sealed, _bound(place))
        except (InvalidTag, ValueError):
            raise WrongKey(f"a value in {place[0]} was changed or moved: it does not open with its key") from None

    def seal_text(self, text: str, *place: str | int) -> str:
        """As the cipher that it replaces."""
        return TEXT_MARK + b64encode(self.seal(text.encode("utf-8", "surrogatepass"), *place)).decode()

    def open_text(self, text: str, *place: str | int) -> str:
        """As the cipher that it replaces."""
        return self.open(_bytes(text), *place).decode("utf-8", "surrogatepass")

    def has(self, id: str | None) -> bool:
        """As the cipher that it replaces."""
        return id in self._digests

    def turn_to(self, id: str | None) -> bool:
        """As the cipher that it replaces."""
        if id is None or not self.has(id):
            return False
        self.current = id
        return True

    def knows(self, data: bytes) -> bool:
        """As the cipher that it replaces."""
        return data.startswith(MARK) and data[len(MARK) : len(MARK) + ID] in self._ciphers

    def digests(self, hash: bytes, session: int) -> list[bytes]:
        """As the cipher that it replaces; without the key they say nothing about the item."""
        item, first = hash + str(session).encode(), self.current
        keys = [self._digests[first], *(key for id, key in self._digests.items() if id != first)]
        return [blake2b(item, key=key, digest_size=len(hash)).digest() for key in keys]


class Turning(Cipher):
    """Opens what either sealed: for the time in which a database goes from one to the other."""

    def __init__(self, before: Cipher, after: Cipher) -> None:
        self._before, self._after = before, after
        self._sealing = before
        self._both = sorted((after, before), key=lambda cipher: not cipher.ids)  # the plain one takes everything
        self.ids = [*after.ids, *before.ids]
        self.current = after.current or (before.current and DECRYPTING + before.current)
        self.overhead = after.overhead

    def has(self, id: str | None) -> bool:
        """As the cipher that it replaces."""
        return id in (self.current, self._after.current) or self._before.has(id)

    def knows(self, data: bytes) -> bool:
        """As the cipher that it replaces."""
        return any(cipher.knows(data) for cipher in self._both)

    def turn_to(self, id: str | None) -> bool:
        """From the one to the other, as soon as the database has turned, and not back."""
        if id in (self.current, self._after.current):
            self._sealing = self._after
            return True
        return self._before.turn_to(id)

    def seal(self, data: bytes, *place: str | int) -> bytes:
        """As the one that it turned to."""
        return self._sealing.seal(data, *place)

    def seal_text(self, text: str, *place: str | int) -> str:
        """As the one that it turned to."""
        return self._sealing.seal_text(text, *place)

    def open(self, data: bytes, *place: str | int) -> bytes:
        """As the one that sealed it."""
        return self._one(data).open(data, *place)

    def open_text(self, text: str, *place: str | int) -> str:
        """As the one that sealed it."""
        return self._one(_bytes(text)).open_text(text, *place)

    def digests(self, hash: bytes, session: int) -> list[bytes]:
        """Those of the one that it turned to first."""
        return [digest for cipher in (self._sealing, *self._both) for digest in cipher.digests(hash, session)]

    def _one(self, data: bytes) -> Cipher:
        return next((cipher for cipher in self._both if cipher.knows(data)), self._both[0])


def _bytes(text: str) -> bytes:
    """What a sealed text holds; nothing if it is none."""
    if not text.startswith(TEXT_MARK):
        return b""
    try:
        return b64decode(text[len(TEXT_MARK) :], validate=True)
    except (NotBase64, ValueError):
        return b""


def _bound(place: Place) -> bytes:
    return repr(place).encode("utf-8", "surrogatepass")


def _id(key: bytes) -> bytes:
    return blake2b(key=key, digest_size=ID, person=b"scallion key id").digest()


def cipher(key: Any) -> Cipher:
    """The cipher for what `key=` was given: None, a key, or several, one of which is the database's.

    A key is 32 bytes, or their text in base64 or hexadecimal digits. Raises ConfigurationError, which tells no key.
    """
    if key is None:
        return PLAIN
    given = list(key) if isinstance(key, list | tuple) else [key]
    if not given:
        raise ConfigurationError("key=[] holds no key: give None, a key, or several")
    return AesGcm([_read(one) for one in given])


def _read(key: Any) -> bytes:
    if isinstance(key, bytes) and len(key) == KEY:
        return key
    text = key.decode("ascii", "replace") if isinstance(key, bytes) else key
    found = _decoded(text.strip()) if isinstance(text, str) else None
    if found is None or len(found) != KEY:
        raise ConfigurationError(
            "a key is 32 random bytes, or their text in base64 or hexadecimal digits; "
            '`python -c "import secrets; print(secrets.token_urlsafe(32))"` makes one'
        )
    return found


def _decoded(text: str) -> bytes | None:
    if re.fullmatch(f"[0-9a-fA-F]{{{2 * KEY}}}", text):
        return bytes.fromhex(text)
    try:
        return b64decode(text.rstrip("=") + "=", altchars=b"-_" if re.search("[-_]", text) else None, validate=True)
    except (NotBase64, ValueError):
        return None
