"""How somebody is told: a webhook that is signed and safe, a program, and what they say when it fails."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
import signal
import socket
import struct
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from scallion.errors import ConfigurationError
from scallion.notify import Command, NotDelivered, Notification, Webhook

SECRET = "whsec_" + base64.b64encode(b"k" * 32).decode()
TOLD = Notification(
    id="7-ab",
    event="asked",
    approval="a1",
    thread="t",
    owner="u1",
    kind="tool_call",
    tool="pay",
    allowed=("approve", "reject"),
    requested_by="bo",
    deciders=("ana", "teun"),
    escalated=None,
    created_at=datetime(2026, 1, 1, tzinfo=UTC),
    expires_at=None,
)


class Server:
    """An HTTP server that answers as it is told, and keeps what it got."""

    def __init__(self, status: int = 204, *, to: str = "", slow: float = 0, reset: bool = False) -> None:
        self.got: list[tuple[str, dict[str, str], bytes]] = []
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                server.got.append((self.path, {k.lower(): v for k, v in self.headers.items()}, body))
                if reset:
                    linger = struct.pack("ii", 1, 0)
                    self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
                    self.connection.close()
                    self.rfile.close()
                    return
                time.sleep(slow)
                self.send_response(status)
                if to:
                    self.send_header("location", to)
                self.end_headers()

            do_GET = do_POST

            def log_message(self, *_: Any) -> None:
                return

            def finish(self) -> None:
                if not reset:
                    super().finish()

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.handle_error = lambda *_: None  # type: ignore[method-assign]
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@contextmanager
def serving(status: int = 204, **options: Any) -> Iterator[Server]:
    server = Server(status, **options)
    try:
        yield server
    finally:
        server.stop()


def refused(to: Any) -> str:
    with pytest.raises(NotDelivered) as error:
        to(TOLD)
    assert error.value.__cause__ is None
    return str(error.value)


def is_genuine(headers: dict[str, str], body: bytes, key: bytes) -> bool:
    """As the specification of Standard Webhooks says it."""
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    expected = "v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    return expected in headers["webhook-signature"].split()


def test_what_is_posted_is_signed() -> None:
    with serving() as server:
        Webhook(f"{server.url}/hook?token=x", secret=SECRET)(TOLD)
    ((path, headers, body),) = server.got
    assert path == "/hook?token=x"
    assert json.loads(body) == TOLD.to_json()
    assert json.loads(body)["created_at"] == "2026-01-01T00:00:00+00:00"
    assert not {"args", "description"} & json.loads(body).keys()
    assert (headers["content-type"], headers["webhook-id"]) == ("application/json", "7-ab")
    assert abs(int(headers["webhook-timestamp"]) - time.time()) < 60
    assert is_genuine(headers, body, b"k" * 32)
    assert not is_genuine(headers, body + b" ", b"k" * 32)


def test_the_signature_is_that_of_the_specification() -> None:
    """The example that its libraries are tested with."""
    hook = Webhook("https://x.example", secret="whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    headers = hook.headers("msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}')
    assert headers["webhook-signature"] == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_one_secret_takes_over_from_another() -> None:
    with serving() as server:
        Webhook(server.url, secret=["plain text", SECRET, b"bytes"])(TOLD)
        Webhook(server.url, secret=None)(TOLD)
    (_, headers, body), (_, unsigned, _) = server.got
    assert all(is_genuine(headers, body, key) for key in (b"plain text", b"k" * 32, b"bytes"))
    assert "webhook-signature" not in unsigned


@pytest.mark.parametrize("status", [400, 404, 410, 429, 500, 503])
def test_an_error_of_the_receiver_is_told_by_its_number(status: int) -> None:
    with serving(status) as server:
        assert refused(Webhook(f"{server.url}/?token=x", secret=SECRET)) == f"HTTP {status}"


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_a_redirect_is_not_followed(status: int) -> None:
    with serving() as other, serving(status, to=f"{other.url}/?token=x") as server:
        assert refused(Webhook(server.url, secret=SECRET)) == f"HTTP {status}: redirects are not followed"
    assert not other.got


def test_no_answer() -> None:
    with serving(slow=1) as server:
        assert refused(Webhook(server.url, secret=SECRET, timeout=0.1)) == "no answer within 0.1 s"
    with serving(reset=True) as server:
        assert refused(Webhook(server.url, secret=SECRET)) == "no answer: ConnectionResetError"
    assert refused(Webhook(server.url, secret=SECRET)) == "no answer: ConnectionRefusedError"


def test_a_proxy_is_not_asked_for_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.setenv("no_proxy", "")
    with serving() as server:
        Webhook(server.url, secret=SECRET)(TOLD)
    assert len(server.got) == 1


@pytest.mark.parametrize(
    "url",
    [
        "http://example.com/?token=s3cret",
        "ftp://example.com/s3cret",
        "file:///s3cret",
        "https://user:s3cret@example.com/",
        "https:///s3cret",
        "https://example.com:s3cret/",
        "https://example.com/s3cret\r\nHost: evil",
        "https://exämple.com/s3cret",
        7,
        "",
    ],
)
def test_urls_that_are_refused_are_not_told(url: Any) -> None:
    with pytest.raises(ConfigurationError) as error:
        Webhook(url, secret="s3cret")
    assert "s3cret" not in str(error.value)


@pytest.mark.parametrize("secret", ["", b"", "whsec_", "whsec_no base64", 7, [7], [""], []])
def test_secrets_that_are_none_are_refused(secret: Any) -> None:
    with pytest.raises(ConfigurationError):
        Webhook("https://example.com", secret=secret)


def test_a_webhook_shows_neither_url_nor_secret() -> None:
    hook = Webhook("http://example.com/s3cret?t=s3cret", secret="s3cret", allow_http=True)
    assert repr(hook) == "Webhook(to example.com)"
    with pytest.raises(ConfigurationError, match="timeout"):
        Webhook("https://example.com", secret="x", timeout=0)


def test_a_command_reads_json(tmp_path: Path) -> None:
    script = f"import sys; open({str(tmp_path / 'told')!r}, 'w').write(sys.stdin.read()); print('noise')"
    Command([sys.executable, "-c", script])(TOLD)
    assert json.loads((tmp_path / "told").read_text()) == TOLD.to_json()


def test_a_command_has_no_shell(tmp_path: Path) -> None:
    Command(["/bin/echo", f"; touch {tmp_path}/made", f"$(touch {tmp_path}/made)"])(TOLD)
    assert not list(tmp_path.iterdir())


def test_a_command_that_fails_is_told_without_its_words() -> None:
    fails = [sys.executable, "-c", "import sys; sys.exit(3)", "s3cret"]
    assert refused(Command(fails)) == "the command ended with exit status 3"
    dies = [sys.executable, "-c", f"import os; os.kill(os.getpid(), {int(signal.SIGTERM)})"]
    assert refused(Command(dies)) == "the command ended with signal 15"
    assert refused(Command(["/no/such/s3cret"])) == "the command cannot be run: FileNotFoundError"


def test_a_command_that_hangs_is_killed(tmp_path: Path) -> None:
    script = f"import os, time; open({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid())); time.sleep(60)"
    assert refused(Command([sys.executable, "-c", script], timeout=1)) == "the command took longer than 1 s"
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


@pytest.mark.parametrize("argv", ["echo told", [], [7], ["echo", None]])
def test_what_is_no_command_is_refused(argv: Any) -> None:
    with pytest.raises(ConfigurationError, match="list of program and arguments"):
        Command(argv)
