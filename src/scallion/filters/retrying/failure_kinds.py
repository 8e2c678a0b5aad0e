"""What kind of failure an exception is, for tools and models alike.

transient: trying again may help. environment: somebody has to mend something (credentials, quota, a missing file).
semantic: the request itself is wrong, and the model can do better. Judged by HTTP status, then by the error code of the
provider, then by the names of the exception's classes, so that no provider's package is imported.
"""

from __future__ import annotations

import json
import re
from typing import cast

from scallion.errors import ModelError
from scallion.filters.retrying import failure_signs as signs
from scallion.values import FailureKind

_TRANSIENT_STATUS = {408, 409, 425, 429}
_ENVIRONMENT_STATUS = {401, 402, 403, 404, 407}
_ENVIRONMENT_CODE = re.compile(
    r"insufficient_quota|billing|invalid_api_key|authentication|permission|not_found"
    r"|AccessDenied|UnrecognizedClient|InvalidClientToken|ExpiredToken|ServiceQuotaExceeded"
)
_SEMANTIC_CODE = re.compile(r"invalid_request|context_length|content_filter|content_policy")
_TRANSIENT_CODE = re.compile(
    r"overloaded|api_error|rate_limit|timeout|server_error"
    r"|Throttl|TooManyRequests|LimitExceeded|ThroughputExceeded|SlowDown|RequestTimeout|ModelNotReady"
)
_BY_CLASS: tuple[tuple[re.Pattern[str], FailureKind], ...] = (
    (
        re.compile(
            r"Timeout|RateLimit|Throttl|TooManyRequests|ResourceExhausted|Unavailable|DeadlineExceeded"
            r"|^ModelAPIError|^TransportError|ConnectionError$|^EOFError|^BrokenPipe|^gaierror$|^URLError$"
        ),
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
    told = _kind_of_code(signs.codes(error)) or _kind_of_status(error)
    beneath = signs.reason(error)
    return told or (_kind_of_class(beneath) if beneath is not None else None) or _kind_of_class(error)


def _kind_of_code(code: str) -> FailureKind | None:
    if _ENVIRONMENT_CODE.search(code):
        return "environment"
    if _SEMANTIC_CODE.search(code):
        return "semantic"
    return "transient" if _TRANSIENT_CODE.search(code) else None


def _kind_of_status(error: BaseException) -> FailureKind | None:
    status = signs.status(error)
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


def model_error(error: Exception) -> ModelError:
    """The ModelError that stands for a provider's exception; its text names the class, never what was sent."""
    status = signs.status(error)
    name = type(error).__name__ + (f" (HTTP {status})" if status is not None else "")
    garbled = isinstance(
        error, json.JSONDecodeError | UnicodeDecodeError
    )  # what the client read, not what it was given
    kind = "transient" if garbled else failure_kind(error)
    return ModelError(kind, f"the model failed: {name}", signs.retry_after(error))
