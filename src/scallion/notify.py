"""Telling people that something waits for them: what they are told, and two ways to tell it.

Whatever takes a `Notification` can be told with: a function, `Command`, `Webhook`. It succeeds when it returns.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any
from urllib.parse import SplitResult, urlsplit

from scallion.errors import ConfigurationError, ScallionError

__all__ = ["Command", "NotDelivered", "Notification", "Webhook"]

LOCAL = ("localhost", "127.0.0.1", "::1")
PREFIX = "whsec_"
"""What a secret begins with that is the base64 of its bytes."""
OPTIONAL = ("description", "args")
"""What is told only on request: it is what a person or a model wrote."""


class NotDelivered(ScallionError):
    """A notification could not be delivered. The reason is stored and shown: it must hold no secret."""


@dataclass(frozen=True, slots=True)
class Notification:
    """What somebody is told: `event` is "asked" or "escalated". The `id` is the same whenever it is sent again.

    `deciders`: who may decide, None: anybody; `escalated`: who may too, since nobody did in time. `description` and
    `args` are None unless they were asked for. Times are UTC and aware.
    """

    id: str
    event: str
    approval: str
    thread: str
    owner: str | None
    kind: str
    tool: str | None
    allowed: tuple[str, ...]
    requested_by: str | None
    deciders: tuple[str, ...] | None
    escalated: str | None
    created_at: datetime | None
    expires_at: datetime | None
    description: str | None = None
    args: Mapping[str, Any] | None = None

    def to_json(self) -> dict[str, Any]:
        """Plain data, times as ISO 8601 texts; without what was not asked for."""
        plain = {one.name: getattr(self, one.name) for one in fields(self)}
        times = {name: plain[name] and plain[name].isoformat() for name in ("created_at", "expires_at")}
        left_out = {name for name in OPTIONAL if plain[name] is None}
        told = plain | times | {"allowed": list(self.allowed), "deciders": self.deciders and list(self.deciders)}
        return {name: value for name, value in told.items() if name not in left_out}


def _body(notification: Notification) -> bytes:
    return json.dumps(notification.to_json(), default=str).encode()


class Command:
    """Runs a program with the notification as JSON on its standard input; it succeeds with exit status 0.

    `argv`: program and arguments; no shell is used. Its standard output is dropped. It has `timeout` seconds.
    """

    def __init__(self, argv: Sequence[str], *, timeout: float = 30) -> None:
        if isinstance(argv, str) or not argv or not all(isinstance(word, str) for word in argv):
            raise ConfigurationError('a Command is a list of program and arguments, as ["notify-send", "waiting"]')
        self.argv = list(argv)
        self.timeout = _seconds(timeout)

    def __repr__(self) -> str:
        return f"Command({self.argv[0]!r})"

    def __call__(self, notification: Notification) -> None:
        """Run it. Raises NotDelivered."""
        import subprocess

        try:
            body = _body(notification)
            done = subprocess.run(self.argv, input=body, stdout=subprocess.DEVNULL, timeout=self.timeout, check=False)
        except subprocess.TimeoutExpired:
            raise NotDelivered(f"the command took longer than {self.timeout:g} s") from None
        except OSError as error:
            raise NotDelivered(f"the command cannot be run: {type(error).__name__}") from None
        if done.returncode:
            ended = "exit status" if done.returncode > 0 else "signal"
            raise NotDelivered(f"the command ended with {ended} {abs(done.returncode)}")


class Webhook:
    """Posts the notification as JSON, signed as Standard Webhooks has it; it succeeds with a status of 200 to 299.

    The headers `webhook-id`, `webhook-timestamp` and `webhook-signature` (`v1,` and the base64 of the HMAC-SHA256 of
    "id.timestamp.body") tell a receiver that it is genuine, new, and whether it came before.

    `secret`: a text, which is base64 behind "whsec_"; bytes; several of these, while one takes over from another; None
    for no signature. Redirects are not followed. `timeout`: seconds to connect, and for each piece of the answer.
    `allow_http`: also without encryption to another machine. Raises ConfigurationError, which tells nothing of the URL.
    """

    def __init__(
        self,
        url: str,
        *,
        secret: str | bytes | Sequence[str | bytes] | None,
        timeout: float = 10,
        allow_http: bool = False,
    ) -> None:
        self._host = _checked(url, allow_http).hostname
        self._url = url
        self._keys = _keys(secret)
        self.timeout = _seconds(timeout)

    def __repr__(self) -> str:
        return f"Webhook(to {self._host})"

    def __call__(self, notification: Notification) -> None:
        """Post it. Raises NotDelivered, which tells neither URL nor headers nor body."""
        from http.client import HTTPException
        from urllib.error import HTTPError, URLError

        try:
            self._post(notification.id, _body(notification))
        except HTTPError as error:
            error.close()
            hint = ": redirects are not followed" if 300 <= error.code < 400 else ""
            raise NotDelivered(f"HTTP {error.code}{hint}") from None
        except (OSError, HTTPException, ValueError) as error:
            cause = error.reason if isinstance(error, URLError) else error
            if isinstance(cause, TimeoutError):
                raise NotDelivered(f"no answer within {self.timeout:g} s") from None
            raise NotDelivered(f"no answer: {type(cause).__name__}") from None

    def _post(self, id: str, body: bytes) -> None:
        from urllib.request import HTTPRedirectHandler, ProxyHandler, Request, build_opener

        class Stay(HTTPRedirectHandler):
            def redirect_request(self, *_: Any) -> None:
                return None

        direct = [ProxyHandler({})] if self._host in LOCAL else []
        request = Request(self._url, body, self.headers(id, int(time.time()), body), method="POST")
        with build_opener(Stay, *direct).open(request, timeout=self.timeout):
            pass

    def headers(self, id: str, timestamp: int, body: bytes) -> dict[str, str]:
        """What goes with a body that is sent at `timestamp`, in seconds since 1970."""
        signed = b".".join([id.encode(), str(timestamp).encode(), body])
        signatures = [base64.b64encode(hmac.digest(key, signed, "sha256")).decode() for key in self._keys]
        told = {"content-type": "application/json", "user-agent": "scallion", "webhook-id": id}
        told["webhook-timestamp"] = str(timestamp)
        return told | ({"webhook-signature": " ".join(f"v1,{one}" for one in signatures)} if signatures else {})


def _seconds(timeout: Any) -> float:
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not 0 < timeout <= 3600:
        raise ConfigurationError(f"timeout= is a number of seconds up to 3600, not {timeout!r}")
    return timeout


def _checked(url: Any, allow_http: bool) -> SplitResult:
    try:
        parts = urlsplit(url if isinstance(url, str) else "")
        found = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        found = None
    if not found or not url.isascii() or any(character <= " " for character in url):
        raise ConfigurationError("a webhook has a URL such as https://example.com/hook")
    if parts.username is not None or parts.password is not None:
        raise ConfigurationError("the URL of a webhook has no user and password: it is signed with secret=")
    if parts.scheme == "http" and parts.hostname not in LOCAL and not allow_http:
        raise ConfigurationError("a webhook on another machine has an https:// URL; allow_http=True takes this one")
    return parts


def _keys(secret: Any) -> list[bytes]:
    if secret is None:
        return []
    given = list(secret) if isinstance(secret, list | tuple) else [secret]
    return [_key(one) for one in given or [""]]


def _key(secret: Any) -> bytes:
    try:
        if isinstance(secret, str) and secret.startswith(PREFIX):
            key = base64.b64decode(secret.removeprefix(PREFIX), validate=True)
        else:
            key = secret.encode() if isinstance(secret, str) else bytes(memoryview(secret))
    except (binascii.Error, TypeError):
        raise ConfigurationError(f"secret= is a text, or bytes; behind {PREFIX} stands base64") from None
    if not key:
        raise ConfigurationError("the secret of a webhook is empty; secret=None sends without a signature")
    return key
