"""Encryption of what is stored: AES-GCM with keys that can be changed, each value bound to its place.

A sealed value is the id of its key (8 bytes), a nonce (12 bytes), the ciphertext and its tag (16 bytes). Its place
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
from typing import Any

from scallion.errors import ConfigurationError, WrongKey

KEY, ID, NONCE, TAG = 32, 8, 12, 16
"""Lengths in bytes."""

Key = str | bytes
Place = tuple[str | int, ...]
"""Where a value lies: "table.column", the number of the session, the row's key."""


class Cipher:
    """What stores values as they are: the cipher of a database without a key."""

    ids: Sequence[str] = ()
    """The ids of the keys, the one for new values first."""
    overhead = 0
    """How many bytes longer sealed data is."""

    def seal(self, data: bytes, *place: str | int) -> bytes:
        """What is stored in that place for the data."""
        return data

    def open(self, data: bytes, *place: str | int) -> bytes:
        """The data. Raises WrongKey for what was not sealed for that place by one of the keys."""
        return data

    def seal_text(self, text: str, *place: str | int) -> str:
        """As `seal`."""
        return text

    def open_text(self, text: str, *place: str | int) -> str:
        """As `open`."""
        return text

    def digest(self, hash: bytes, session: int) -> bytes:
        """What stands for the hash of an item: equal items of a session have equal digests."""
        return hash

    def knows(self, data: bytes) -> bool:
        """Whether it may have sealed this."""
        return True


PLAIN = Cipher()


class AesGcm(Cipher):
    """Seals with the first key, opens with any of them."""

    overhead = ID + NONCE + TAG

    def __init__(self, keys: Sequence[bytes]) -> None:
        try:
            from cryptography.hazmat.primitives.ciphers.aead import AESGCM
        except ImportError:
            raise ConfigurationError(
                "key=... needs the module cryptography: pip install 'scallion[encryption]'"
            ) from None
        self._ciphers = {_id(key): AESGCM(key) for key in keys}
        self.ids = [id.hex() for id in self._ciphers]
        self._first = next(iter(self._ciphers))
        self._digests = blake2b(key=keys[0], person=b"scallion digests").digest()

    def seal(self, data: bytes, *place: str | int) -> bytes:
        """As the cipher that it replaces."""
        nonce = os.urandom(NONCE)
        return self._first + nonce + self._ciphers[self._first].encrypt(nonce, data, _bound(place))

    def open(self, data: bytes, *place: str | int) -> bytes:
        """As the cipher that it replaces."""
        from cryptography.exceptions import InvalidTag

        cipher = self._ciphers.get(data[:ID])
        if cipher is None:
            raise WrongKey(f"a value in {place[0]} is not encrypted with any of the given keys: {', '.join(self.ids)}")
        try:
            return cipher.decrypt(data[ID : ID + NONCE], data[ID + NONCE :], _bound(place))
        except (InvalidTag, ValueError):
            raise WrongKey(f"a value in {place[0]} was changed or moved: it does not open with its key") from None

    def seal_text(self, text: str, *place: str | int) -> str:
        """As the cipher that it replaces."""
        return b64encode(self.seal(text.encode("utf-8", "surrogatepass"), *place)).decode()

    def open_text(self, text: str, *place: str | int) -> str:
        """As the cipher that it replaces."""
        return self.open(_bytes(text), *place).decode("utf-8", "surrogatepass")

    def knows(self, data: bytes) -> bool:
        """As the cipher that it replaces."""
        return data[:ID] in self._ciphers

    def digest(self, hash: bytes, session: int) -> bytes:
        """As the cipher that it replaces; without the key it says nothing about the item."""
        return blake2b(hash + str(session).encode(), key=self._digests[:KEY], digest_size=16).digest()


class _Either(Cipher):
    """Opens what one of two sealed; never used to seal."""

    def __init__(self, one: Cipher, other: Cipher) -> None:
        self._both = sorted((one, other), key=lambda cipher: not cipher.ids)  # the plain one takes everything
        self.ids = [*one.ids, *other.ids]

    def open(self, data: bytes, *place: str | int) -> bytes:
        """As the cipher that it replaces."""
        return self._one(data).open(data, *place)

    def open_text(self, text: str, *place: str | int) -> str:
        """As the cipher that it replaces."""
        return self._one(_bytes(text)).open_text(text, *place)

    def _one(self, data: bytes) -> Cipher:
        return next((cipher for cipher in self._both if cipher.knows(data)), self._both[0])


def either(one: Cipher, other: Cipher) -> Cipher:
    """Opens what one of the two sealed: for the time in which a database goes from one to the other."""
    return _Either(one, other)


def _bytes(text: str) -> bytes:
    """What a sealed text holds; nothing if it is none."""
    try:
        return b64decode(text, validate=True)
    except (NotBase64, ValueError):
        return b""


def _bound(place: Place) -> bytes:
    return repr(place).encode("utf-8", "surrogatepass")


def _id(key: bytes) -> bytes:
    return blake2b(key=key, digest_size=ID, person=b"scallion key id").digest()


def cipher(key: Any) -> Cipher:
    """The cipher for what `key=` was given: None, a key, or several, of which the first is for new values.

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
