"""A local HTTP server that plays OpenAI and Anthropic from a script.

    with FakeProvider() as provider:
        provider.play(Stream(events), Status(429, retry_after=2))

Replies are given in order, one a request, whatever the protocol of the request; a request beyond the script is answered
with status 418 and noted in `unexpected`. A stream is answered as server-sent events when the request says
`"stream": true`, and folded to the one body that the provider would have sent otherwise.
"""

from __future__ import annotations

import json
import socket
import struct
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal, Self

from .wire import as_body, as_sse

Event = Mapping[str, Any]
Broken = Literal["dropped", "reset", "quiet", "stalled", "garbled"]


@dataclass(frozen=True)
class Stream:
    """A recorded answer. `cut`: after so many events the connection ends.

    It is dropped in the middle of the body, reset by TCP, the body ends as if it were whole (`quiet`), nothing more
    comes until the server closes (`stalled`), or it goes on with what is no JSON (`garbled`).
    """

    events: Sequence[Event]
    cut: int | None = None
    broken: Broken = "dropped"


@dataclass(frozen=True)
class Status:
    """An error answer."""

    code: int
    retry_after: float | None = None
    type: str = "error"
    message: str = "scripted failure"

    def body(self) -> dict[str, Any]:
        return {"type": "error", "error": {"type": self.type, "code": self.type, "message": self.message}}


@dataclass
class Request:
    """What the client sent."""

    path: str
    body: dict[str, Any]
    headers: dict[str, str] = field(repr=False)

    @property
    def streaming(self) -> bool:
        return bool(self.body.get("stream"))


class FakeProvider:
    """Listens on a free port of 127.0.0.1 between `with` and its end."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.unexpected: list[Request] = []
        self._replies: deque[Stream | Status] = deque()
        self._lock = threading.Lock()
        self.closing = threading.Event()
        self.stalling = threading.Event()
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.provider = self
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.closing.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    @property
    def bodies(self) -> list[dict[str, Any]]:
        return [request.body for request in self.requests]

    def play(self, *replies: Stream | Status) -> None:
        """Add these to the end of the script."""
        with self._lock:
            self._replies.extend(replies)

    def wait_until_stalled(self, seconds: float = 30) -> None:
        """Return when a client hangs on a stalled stream."""
        assert self.stalling.wait(seconds), "no client came to a stalled stream"

    @property
    def left(self) -> int:
        """How many replies were not asked for yet."""
        return len(self._replies)

    def answer(self, request: Request) -> Stream | Status:
        with self._lock:
            self.requests.append(request)
            if self._replies:
                return self._replies.popleft()
            self.unexpected.append(request)
            return Status(418, message="the script has no reply left")


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    provider: FakeProvider

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that was killed, or closed its stream, is part of the tests."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        request = Request(self.path, body, {name.lower(): value for name, value in self.headers.items()})
        reply = self.server.provider.answer(request)
        if isinstance(reply, Status):
            self._send(reply.code, reply.body(), {"retry-after": f"{reply.retry_after:g}"} if reply.retry_after else {})
        elif request.streaming:
            self._stream(reply)
        elif reply.cut is not None:
            self._break(reply.broken)
        else:
            self._send(200, as_body(reply.events), {})

    def _send(self, code: int, body: Mapping[str, Any], headers: Mapping[str, str]) -> None:
        data = json.dumps(body).encode()
        self.send_response(code)
        self._headers({"content-type": "application/json", "content-length": str(len(data)), **headers})
        self.wfile.write(data)

    def _stream(self, reply: Stream) -> None:
        self.send_response(200)
        self._headers({"content-type": "text/event-stream", "transfer-encoding": "chunked"})
        for frame in as_sse(reply.events, reply.cut):
            self.wfile.write(b"%x\r\n%s\r\n" % (len(frame), frame))
            self.wfile.flush()
        if reply.broken == "garbled":
            frame = b'event: message\ndata: {"half": \n\n'
            self.wfile.write(b"%x\r\n%s\r\n0\r\n\r\n" % (len(frame), frame))
        elif reply.cut is not None and reply.broken != "quiet":
            self._break(reply.broken)
        else:
            self.wfile.write(b"0\r\n\r\n")

    def _headers(self, headers: Mapping[str, str]) -> None:
        """Each answer closes its connection: a client never meets one that an ended event loop left behind."""
        for name, value in {**headers, "connection": "close"}.items():
            self.send_header(name, value)
        self.end_headers()

    def _break(self, broken: str) -> None:
        self.close_connection = True
        if broken == "garbled":
            self._headers_and_garbage()
        if broken == "stalled":
            self.server.provider.stalling.set()
            self.server.provider.closing.wait()
        if broken == "reset":
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.close()

    def _headers_and_garbage(self) -> None:
        data = b'{"half": '
        self.send_response(200)
        self._headers({"content-type": "application/json", "content-length": str(len(data))})
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        pass
