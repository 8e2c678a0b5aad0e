"""What kind of failure an exception is, for tools and models alike.

transient: trying again may help. environment: somebody has to mend something (credentials, quota, a missing file).
semantic: the request itself is wrong, and the model can do better. Judged by HTTP status, then by the error code of the
provider, then by the names of the exception's classes, so that no provider's package is imported.
"""

from __future__ import annotations

import json
import re
import uuid
from collections import OrderedDict
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, cast

from scallion.errors import ModelError
from scallion.values import FailureKind

_TRANSIENT_STATUS = {408, 409, 425, 429}
_ENVIRONMENT_STATUS = {401, 402, 403, 404, 407}
_ENVIRONMENT_CODE = re.compile(r"insufficient_quota|billing|invalid_api_key|authentication|permission|not_found")
_SEMANTIC_CODE = re.compile(r"invalid_request|context_length|content_filter|content_policy")
_TRANSIENT_CODE = re.compile(r"overloaded|api_error|rate_limit|timeout|server_error")
_BY_CLASS: tuple[tuple[re.Pattern[str], FailureKind], ...] = (
    (
        re.compile(r"Timeout|RateLimit|^ModelAPIError|^TransportError|ConnectionError$|^EOFError|^BrokenPipe"),
        "transient",
    ),
    (re.compile(r"Authentication|PermissionDenied|PermissionError|NotFoundError$|ImportError|^OSError"), "environment"),
    (re.compile(r"^APIError$"), "transient"),
)


def failure_kind(error: BaseException) -> FailureKind:
    """The kind of `error`, or of the first of its causes that tells."""
    seen: BaseException | None = error
    for _ in range(5):
        if seen is None:
            break
        if (kind := _own_kind(seen)) is not None:
            return kind
        seen = seen.__cause__
    return "semantic"


def _own_kind(error: BaseException) -> FailureKind | None:
    if isinstance(error, ModelError):
        return cast("FailureKind", error.kind)
    return _kind_of_code(_code(error)) or _kind_of_status(error) or _kind_of_class(error)


def _kind_of_code(code: str) -> FailureKind | None:
    if _ENVIRONMENT_CODE.search(code):
        return "environment"
    if _SEMANTIC_CODE.search(code):
        return "semantic"
    return "transient" if _TRANSIENT_CODE.search(code) else None


def _kind_of_status(error: BaseException) -> FailureKind | None:
    status = _status(error)
    if status is None:
        return None
    if status in _ENVIRONMENT_STATUS:
        return "environment"
    return "transient" if status >= 500 or status in _TRANSIENT_STATUS else "semantic"


def _kind_of_class(error: BaseException) -> FailureKind | None:
    names = [kind.__name__ for kind in type(error).__mro__]
    for pattern, kind in _BY_CLASS:
        if any(pattern.search(name) for name in names):
            return kind
    return None


def _status(error: BaseException) -> int | None:
    for holder in (error, getattr(error, "response", None)):
        status = getattr(holder, "status_code", None)
        if isinstance(status, int) and status >= 400:
            return status
    return None


def _code(error: BaseException) -> str:
    """The provider's own words for the error: `.code`, `.type`, those in a body, or the start of a ValueError."""
    body = getattr(error, "body", None)
    inner = body.get("error") if isinstance(body, dict) else None
    found = [getattr(error, "code", None), getattr(error, "type", None)]
    found += [inner.get("code"), inner.get("type")] if isinstance(inner, dict) else []
    if isinstance(error, ValueError) and (said := re.match(r"(?:ResponseError\(code=')?(\w+)[':]", str(error))):
        found.append(said[1])
    return " ".join(word for word in found if isinstance(word, str))


def retry_after(error: BaseException) -> float | None:
    """Seconds that the provider asks to wait (RFC 9110, Retry-After: seconds or a date), if it said so."""
    headers = getattr(getattr(error, "response", None), "headers", None)
    value: Any = headers.get("retry-after") if hasattr(headers, "get") else None  # type: ignore[union-attr]
    return _seconds(value) if isinstance(value, str) else None


def _seconds(value: str) -> float | None:
    try:
        return max(0.0, float(value))
    except ValueError:
        pass
    try:
        moment = parsedate_to_datetime(value)
    except ValueError:
        return None
    return max(0.0, (moment - datetime.now(UTC)).total_seconds())


def model_error(error: Exception) -> ModelError:
    """The ModelError that stands for a provider's exception; its text names the class, never what was sent."""
    status = _status(error)
    name = type(error).__name__ + (f" (HTTP {status})" if status is not None else "")
    garbled = isinstance(
        error, json.JSONDecodeError | UnicodeDecodeError
    )  # what the client read, not what it was given
    kind = "transient" if garbled else failure_kind(error)
    return ModelError(kind, f"the model failed: {name}", retry_after(error))


_remembered: OrderedDict[str, BaseException] = OrderedDict()


def remember(error: BaseException) -> str:
    """Keep an exception for the node that raises it when the batch is done, and return its key; 100 are kept."""
    key = uuid.uuid4().hex
    _remembered[key] = error
    if len(_remembered) > 100:
        _remembered.popitem(last=False)
    return key


def recall(key: str) -> BaseException | None:
    """The exception of that key, once; None in another process."""
    return _remembered.pop(key, None)
