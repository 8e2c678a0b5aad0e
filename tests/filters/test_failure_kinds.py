"""What exceptions of others tell: their kind, when to come back, and nothing that takes the place of the failure."""

from __future__ import annotations

import io
import socket
import ssl
from datetime import UTC, datetime, timedelta
from email.message import Message
from email.utils import format_datetime
from http import HTTPStatus
from types import SimpleNamespace
from typing import Any
from urllib.error import HTTPError, URLError

import pytest
from langchain_core.tools import tool
from modes import Drive
from scenes import asks, call, results

from scallion import Agent, Completed, SQLCheckpointer, filters
from scallion.filters.retrying.failure_kinds import model_error
from scallion.testing import ScriptedModel

in_masks = pytest.mark.parametrize("masks", [(), ("email",)], ids=["plain", "masked"])


def soon(form: str) -> str:
    """A time in 30 s."""
    moment = datetime.now(UTC) + timedelta(seconds=30)
    return {
        "IMF": format_datetime(moment, usegmt=True),
        "minus zero": moment.strftime("%a, %d %b %Y %H:%M:%S -0000"),
        "no zone": moment.strftime("%a, %d %b %Y %H:%M:%S"),
        "asctime": moment.strftime("%a %b %e %H:%M:%S %Y"),
        "other zone": format_datetime(moment.astimezone(tz=None)),
    }[form]


class Busy(Exception):
    """HTTP 503 with that header."""

    status_code = 503

    def __init__(self, header: Any) -> None:
        super().__init__("busy")
        self.response = SimpleNamespace(status_code=503, headers={"retry-after": header})


class Raises:
    """Whose every attribute raises."""

    def __getattribute__(self, name: str) -> Any:
        raise RuntimeError("nothing to see")


class Mute(Exception):
    """Which can be asked nothing."""

    @property
    def _nothing(self) -> Any:
        raise RuntimeError("nothing to see")

    response = status_code = code = type = body = status = reason = headers = _nothing

    def __str__(self) -> str:
        raise RuntimeError("no text")


class Hollow(Exception):
    """Whose parts can be asked nothing."""

    response = body = headers = reason = Raises()


class MuteValue(Mute, ValueError):
    """Of ValueErrors the text is read too."""


@pytest.mark.parametrize("form", ["IMF", "minus zero", "no zone", "asctime", "other zone"])
def test_a_date_of_any_form_says_when_to_come_back(form: str) -> None:
    """RFC 9110 has clients take three forms; without a zone a date is in UTC."""
    failed = model_error(Busy(soon(form)))
    assert failed.kind == "transient"
    assert failed.retry_after == pytest.approx(30, abs=3)


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("0", 0.0), ("2.5", 2.5), ("-5", 0.0), ("Sun Nov  6 08:49:37 1994", 0.0),
        ("inf", float("inf")), ("nan", None), ("tomorrow", None), ("", None),
        ("Wed, 99 Oct 2015 07:28:00", None), (b"3", None),
        ("Wed, 21 Oct 99999 07:28:00", None), ("Wed, 21 Oct 2015 07:28:00 +999999999999", None), ("1 2 3 4 5 6", None),
    ],
)  # fmt: skip
def test_what_is_no_time_asks_for_none(header: Any, seconds: float | None) -> None:
    failed = model_error(Busy(header))
    assert (failed.kind, failed.retry_after) == ("transient", seconds)


@pytest.mark.parametrize("form", ["no zone", "asctime"])
def test_a_model_that_names_a_time_is_retried(drive: Drive, form: str) -> None:
    past = "Sun Nov  6 08:49:37 1994" if form == "asctime" else "Wed, 21 Oct 2015 07:28:00"
    model = ScriptedModel([Busy(past), "there"])
    done, _ = drive(Agent(model, filters=[filters.retry_model(initial_delay=0)])).start("go")
    assert isinstance(done, Completed)
    assert done.answer == "there"


@in_masks
def test_a_model_whose_error_can_be_asked_nothing_falls_back(drive: Drive, masks: tuple[str, ...]) -> None:
    """Nothing that is read of it raises; it is of the request as far as anybody knows."""
    model = ScriptedModel([Mute(), MuteValue(), Hollow()])
    spare = ScriptedModel(["spare"] * 3)
    agent = Agent(model, filters=[filters.fallback(spare, on="semantic"), *map(filters.pii, masks)])
    for _ in model.replies:
        done, _ = drive(agent).start("go")
        assert isinstance(done, Completed)
        assert done.answer == "spare"


@in_masks
def test_a_tool_whose_error_can_be_asked_nothing_ends_no_turn(drive: Drive, masks: tuple[str, ...]) -> None:
    errors = [Mute(), MuteValue(), Hollow("x"), Busy("Wed, 21 Oct 2015 07:28:00")]

    @tool
    def fails(number: int) -> str:
        """Fail."""
        raise errors[number]

    model = ScriptedModel([asks(*(call("fails", number=one) for one in range(4))), "done"])
    done, _ = drive(Agent(model, tools=[fails], filters=[*map(filters.pii, masks)])).start("go")
    assert isinstance(done, Completed)
    said = ["error: Mute: ", "error: MuteValue: ", "error: Hollow: x", "error: Busy: busy"]
    assert results(done.messages) == said
    assert done.answer == "done"


def made(name: str, bases: tuple[type[Exception], ...] = (Exception,), **attributes: Any) -> Exception:
    """An exception of that class name, with these attributes: clients that need not be installed."""
    error = type(name, bases, {})("x")
    for attribute, value in attributes.items():
        setattr(error, attribute, value)
    return error


def aws(code: str, status: int, **headers: str) -> Exception:
    """What boto raises; its classes are made of the code of the failure."""
    meta = {"HTTPStatusCode": status, "HTTPHeaders": headers}
    bases = (type("ClientError", (Exception,), {}),)
    return made(code, bases, response={"Error": {"Code": code, "Message": "m"}, "ResponseMetadata": meta})


def of_urllib(status: int, **headers: str) -> HTTPError:
    """What urllib raises for a status."""
    told = Message()
    for name, value in headers.items():
        told[name.replace("_", "-")] = value
    return HTTPError("http://x", status, "m", told, io.BytesIO())


KINDS: list[tuple[Exception, str]] = [
    (aws("ThrottlingException", 429), "transient"),
    (aws("ThrottlingException", 400), "transient"),
    (aws("ProvisionedThroughputExceededException", 400), "transient"),
    (aws("SlowDown", 503), "transient"),
    (aws("InternalServerException", 500), "transient"),
    (aws("ModelTimeoutException", 408), "transient"),
    (aws("AccessDeniedException", 400), "environment"),
    (aws("ExpiredTokenException", 403), "environment"),
    (aws("ResourceNotFoundException", 404), "environment"),
    (aws("ServiceQuotaExceededException", 400), "environment"),
    (aws("ValidationException", 400), "semantic"),
    (made("ClientError", code=429, status="RESOURCE_EXHAUSTED"), "transient"),
    (made("ServerError", code=503, status="UNAVAILABLE"), "transient"),
    (made("ClientError", code=400, status="INVALID_ARGUMENT"), "semantic"),
    (made("ClientError", code=403, status="PERMISSION_DENIED"), "environment"),
    (made("ResourceExhausted", code=HTTPStatus.TOO_MANY_REQUESTS), "transient"),
    (made("ServiceUnavailable"), "transient"),
    (made("DeadlineExceeded"), "transient"),
    (made("ClientResponseError", status=429), "transient"),
    (made("ClientResponseError", status=401), "environment"),
    (made("Odd", code=50001, status=400), "semantic"),
    (made("Odd", code=7, status=True), "semantic"),
    (made("Odd", code=1013, status=9000), "semantic"),
    (of_urllib(503), "transient"),
    (of_urllib(429), "transient"),
    (of_urllib(404), "environment"),
    (of_urllib(422), "semantic"),
    (URLError("refused"), "transient"),
    (URLError(ConnectionRefusedError()), "transient"),
    (URLError(socket.gaierror(-2, "no such name")), "transient"),
    (URLError(FileNotFoundError()), "environment"),
    (URLError(ssl.SSLCertVerificationError()), "environment"),
    (made("MaxRetryError", reason=made("NewConnectionError")), "transient"),
    (socket.gaierror(-3, "again"), "transient"),
    (PermissionError(), "environment"),
    (ValueError("bad"), "semantic"),
    (made("HTTPException", reason="Service Unavailable"), "semantic"),
]


@pytest.mark.parametrize(("error", "kind"), KINDS, ids=repr)
def test_failures_of_clients_have_their_kind(error: Exception, kind: str) -> None:
    assert model_error(error).kind == kind


@pytest.mark.parametrize(
    "error",
    [
        aws("ThrottlingException", 429, **{"retry-after": "3"}),
        of_urllib(429, Retry_After="3"),
        made("ClientResponseError", status=429, headers={"Retry-After": "3"}),
        made("ClientError", code=429, response=SimpleNamespace(headers={"Retry-After": "3"})),
    ],
    ids=repr,
)
def test_clients_say_when_to_come_back_wherever_they_keep_it(error: Exception) -> None:
    assert model_error(error).retry_after == 3


def test_a_tool_over_a_server_that_is_busy_asks_no_person(drive: Drive, sql: SQLCheckpointer) -> None:
    failures: list[Any] = [of_urllib(503), URLError("refused")]

    @tool
    def load() -> str:
        """Load."""
        if failures:
            raise failures.pop()
        return "loaded"

    stack = [filters.retry_tool(initial_delay=0), filters.pause_on_environment_error()]
    agent = Agent(ScriptedModel([asks(call("load")), "done"]), tools=[load], filters=stack, checkpointer=sql)
    done, _ = drive(agent).start("go", thread="t")
    assert isinstance(done, Completed)
    assert results(done.messages) == ["loaded"]
