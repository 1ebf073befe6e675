"""An OpenAI-compatible server on the loopback interface that misbehaves as it is told."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Answer:
    """What the server says to one request: an object (sent as JSON), raw text, or pieces of a stream.

    ``cut`` drops the connection before the end: after half of a body, or after the last piece.
    """

    body: Any = None
    status: int = 200
    content_type: str = "application/json"
    headers: dict[str, str] = field(default_factory=dict)
    pieces: Iterable[bytes] | None = None
    cut: bool = False


@dataclass
class Server:
    url: str
    requests: list[dict[str, Any]] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    keys: list[str | None] = field(default_factory=list)
    abandoned: list[int] = field(default_factory=list)
    """For each stream that the client hung up on: how many pieces had been sent."""


def chat(text: str | None, finish: str = "stop", **counts: Any) -> Answer:
    """A well-formed chat answer."""
    usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15, **counts}
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": finish}
    return Answer({"id": "x", "object": "chat.completion", "choices": [choice], "usage": usage})


def failure(status: int, message: str, **fields: Any) -> Answer:
    return Answer({"error": {"message": message, **fields}}, status)


def several(texts: list[str], finish: str = "stop", **counts: Any) -> Answer:
    """A chat answer with several choices, counted as five tokens each."""
    answer = chat("", finish, completion_tokens=5 * len(texts), **counts)
    answer.body["choices"] = [
        {"index": index, "message": {"role": "assistant", "content": text}, "finish_reason": finish}
        for index, text in enumerate(texts)
    ]
    return answer


def event(value: Any) -> bytes:
    """One server-sent event."""
    return f"data: {value if isinstance(value, str) else json.dumps(value)}\n\n".encode()


def delta(text: str | None = None, finish: str | None = None, index: int = 0, **fields: Any) -> bytes:
    """A chunk of a streamed chat answer."""
    message = {**fields} if text is None else {"content": text, **fields}
    return event({"choices": [{"index": index, "delta": message, "finish_reason": finish}]})


def counted(prompt: int = 10, completion: int = 5) -> bytes:
    """The last chunk: no choice, but the count."""
    return event({"choices": [], "usage": {"prompt_tokens": prompt, "completion_tokens": completion}})


DONE = event("[DONE]")


def stream(*pieces: bytes, cut: bool = False, endless: bytes | None = None) -> Answer:
    """A stream of events; ``endless`` is repeated ten thousand times after the others."""

    def sent() -> Iterator[bytes]:
        yield from pieces
        for _ in range(10_000 if endless else 0):
            time.sleep(0.001)
            yield endless or b""

    return Answer(content_type="text/event-stream", pieces=sent(), cut=cut)


@contextmanager
def serving(respond: Callable[[dict[str, Any]], Answer]) -> Iterator[Server]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            server.requests.append(asked)
            server.paths.append(self.path)
            server.keys.append(self.headers["Authorization"])
            answer = respond(asked)
            if answer.pieces is not None:
                self.send_pieces(answer, answer.pieces)
                return
            raw = answer.body if isinstance(answer.body, bytes) else json.dumps(answer.body).encode()
            self.send_response(answer.status)
            headers = {"Content-Type": answer.content_type, "Content-Length": str(len(raw)), **answer.headers}
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(raw[: len(raw) // 2] if answer.cut else raw)
            self.close_connection = self.close_connection or answer.cut

        def send_pieces(self, answer: Answer, pieces: Iterable[bytes]) -> None:
            self.send_response(answer.status)
            headers = {"Content-Type": answer.content_type, "Transfer-Encoding": "chunked", **answer.headers}
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            sent = 0
            try:
                for piece in pieces:
                    self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
                    sent += 1
                if not answer.cut:
                    self.wfile.write(b"0\r\n\r\n")
            except ConnectionError:
                server.abandoned.append(sent)
                answer = Answer(cut=True)
            self.close_connection = self.close_connection or answer.cut

        def log_message(self, format: str, *args: Any) -> None:
            pass

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    http.daemon_threads = True
    server = Server(f"http://127.0.0.1:{http.server_address[1]}/v1")
    thread = threading.Thread(target=http.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        http.shutdown()
        http.server_close()
        thread.join()
