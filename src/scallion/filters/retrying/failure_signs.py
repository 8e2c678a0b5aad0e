"""What an exception that is not ours tells: its text, HTTP status, codes, and when to come back.

Nothing here raises: properties, mappings and texts are the provider's own, and one that fails must not take the place
of the failure that it belongs to.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

AWS = ("response", "ResponseMetadata")
"""Where boto has what HTTP said."""
RETRY_AFTER = ("retry-after", "Retry-After")


def text(error: BaseException) -> str:
    """What the exception says; nothing where it cannot say it."""
    try:
        return str(error)
    except Exception:
        return ""


def described(error: BaseException) -> str:
    """Class and text, as a model reads them."""
    return f"{type(error).__name__}: {text(error)}"


def status(error: BaseException) -> int | None:
    """The HTTP status of the failure, if it has one: where clients of providers, urllib, aiohttp and boto keep it."""
    found: list[Any] = [at(holder, "status_code", kind=int) for holder in (error, at(error, "response"))]
    if (told := next((one for one in found if one is not None and one >= 400), None)) is not None:
        return int(told)
    places = (("status",), ("code",), ("response", "status"), (*AWS, "HTTPStatusCode"))
    found = [at(error, *path, kind=int) for path in places]
    # Other things than HTTP have numbers under these names.
    return next((int(one) for one in found if one is not None and 400 <= one < 600), None)


def codes(error: BaseException) -> str:
    """The provider's own words for the error: `.code`, `.type`, those in a body, or the start of a ValueError."""
    inner = at(error, "body", "error")
    found = [at(holder, name, kind=str) for holder in (error, inner) for name in ("code", "type")]
    found.append(at(error, "response", "Error", "Code", kind=str))
    if isinstance(error, ValueError) and (said := re.match(r"(?:ResponseError\(code=')?(\w+)[':]", text(error))):
        found.append(said[1])
    return " ".join(word for word in found if word is not None)


def reason(error: BaseException) -> BaseException | None:
    """The failure beneath that urllib and urllib3 keep as `.reason`."""
    found: BaseException | None = at(error, "reason", kind=BaseException)
    return found


def retry_after(error: BaseException) -> float | None:
    """Seconds that the provider asks to wait (RFC 9110, Retry-After: seconds or a date), if it said so."""
    for path in (("response", "headers"), ("headers",), (*AWS, "HTTPHeaders")):
        if (value := _header(at(error, *path))) is not None:
            return _seconds(value)
    return None


def at(holder: Any, *path: str, kind: type = object) -> Any:
    """What stands there, by attributes or the keys of mappings; None where nothing of that kind does.

    Or where it cannot be read: even the class of an object may be a property that raises.
    """
    try:
        for name in path:
            holder = holder.get(name) if isinstance(holder, Mapping) else getattr(holder, name, None)
        return holder if isinstance(holder, kind) else None
    except Exception:
        return None


def _header(headers: Any) -> str | None:
    """Retry-After; most mappings of headers do not mind its case, plain dicts do."""
    try:
        return next((found for name in RETRY_AFTER if isinstance(found := headers.get(name), str)), None)
    except Exception:
        return None


def _seconds(value: str) -> float | None:
    try:
        seconds = float(value)
    except ValueError:
        return _until(value)
    return None if math.isnan(seconds) else max(0.0, seconds)


def _until(value: str) -> float | None:
    """The seconds until a date; one without a zone, as asctime writes it, is in UTC."""
    try:
        moment = parsedate_to_datetime(value)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        return max(0.0, (moment - datetime.now(UTC)).total_seconds())
    except Exception:  # the parser has its own for each kind of nonsense
        return None
