"""An OpenAI-compatible server on the loopback interface that misbehaves as it is told."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Answer:
    """What the server says to one request: an object (sent as JSON) or raw text."""

    body: Any
    status: int = 200
    content_type: str = "application/json"
    headers: dict[str, str] = field(default_factory=dict)


@dataclass
class Server:
    url: str
    requests: list[dict[str, Any]] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    keys: list[str | None] = field(default_factory=list)


def chat(text: str | None, finish: str = "stop", **counts: Any) -> Answer:
    """A well-formed chat answer."""
    usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15, **counts}
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": finish}
    return Answer({"id": "x", "object": "chat.completion", "choices": [choice], "usage": usage})


def failure(status: int, message: str, **fields: Any) -> Answer:
    return Answer({"error": {"message": message, **fields}}, status)


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
            raw = answer.body if isinstance(answer.body, bytes) else json.dumps(answer.body).encode()
            self.send_response(answer.status)
            headers = {"Content-Type": answer.content_type, "Content-Length": str(len(raw)), **answer.headers}
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(raw)

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
