"""A MediaWiki API on the loopback interface: pages, redirects, searches, and misbehaviour on order."""

from __future__ import annotations

import gzip
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from pipeline.environments.wiki.titles import fold

CONTACT = "tests@example.org"


@dataclass
class Answer:
    """What is sent: an object (as JSON) or bytes. ``cut`` promises more bytes than it sends."""

    body: Any
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    cut: bool = False
    delay: float = 0.0
    drip: float = 0.0


def refusal(code: str, info: str = "no", **headers: str) -> Answer:
    """An error as the API words it; its status is 200."""
    return Answer({"error": {"code": code, "info": info}}, headers=headers)


@dataclass
class MediaWiki:
    """The wiki's content and what was asked of it."""

    pages: dict[str, str] = field(default_factory=dict)
    redirects: dict[str, str] = field(default_factory=dict)
    ambiguous: set[str] = field(default_factory=set)
    similar: Callable[[str], list[str]] = lambda title: []
    failures: list[Answer] = field(default_factory=list)
    delay: float = 0.0
    url: str = ""
    requests: list[dict[str, str]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    most_at_once: int = 0

    def answer(self, asked: dict[str, str], agent: str) -> Answer:
        if "@" not in agent and "://" not in agent:
            return Answer(b"<html>Please set a user-agent</html>", 403)
        if self.failures:
            return self.failures.pop(0)
        return self.parse(asked) if asked["action"] == "parse" else self.search(asked)

    def parse(self, asked: dict[str, str]) -> Answer:
        title = asked["page"].replace("_", " ").strip()
        title = title[:1].upper() + title[1:]
        if not title or any(sign in title for sign in "[]{}|<>#"):
            return refusal("invalidtitle", "Bad title")
        if asked.get("redirects"):
            title = self.redirects.get(title, title)
        if title not in self.pages:
            return refusal("missingtitle", "The page you specified doesn't exist.")
        properties = {"disambiguation": ""} if title in self.ambiguous else {}
        return Answer({"parse": {"title": title, "text": self.pages[title], "properties": properties}})

    def search(self, asked: dict[str, str]) -> Answer:
        wanted = fold(asked["gsrsearch"])
        near = next((title for title in [*self.pages, *self.redirects] if fold(title) == wanted), None)
        found = [{"ns": 0, "title": title, "pageid": 9} for title in self.similar(asked["srsearch"])]
        query: dict[str, Any] = {"search": found[: int(asked["srlimit"])]}
        if near is not None:
            query["pages"] = [{"pageid": 7, "ns": 0, "title": near, "index": 1}]
        return Answer({"batchcomplete": True, "query": query})


@contextmanager
def serving(wiki: MediaWiki) -> Iterator[MediaWiki]:
    """Serve a wiki; ``wiki.url`` is the address of its API."""
    now, counting = [0], threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            try:
                asked = dict(parse_qsl(urlsplit(self.path).query, keep_blank_values=True))
                wiki.requests.append(asked)
                wiki.headers.append({name.lower(): value for name, value in self.headers.items()})
                self.work()
                self.send(wiki.answer(asked, self.headers.get("User-Agent", "")))
            except OSError:
                self.close_connection = True

        def work(self) -> None:
            """Take the wiki's time; over before the answer goes out, after which the next may come."""
            with counting:
                now[0] += 1
                wiki.most_at_once = max(wiki.most_at_once, now[0])
            time.sleep(wiki.delay)
            with counting:
                now[0] -= 1

        def send(self, answer: Answer) -> None:
            time.sleep(answer.delay)
            raw = answer.body if isinstance(answer.body, bytes) else json.dumps(answer.body).encode()
            headers = {"Content-Type": "application/json", **answer.headers}
            if "gzip" in self.headers.get("Accept-Encoding", "") and "Content-Encoding" not in headers:
                raw, headers["Content-Encoding"] = gzip.compress(raw, 1), "gzip"
            self.send_response(answer.status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(raw) + 10 * answer.cut))
            self.end_headers()
            for start in range(0, len(raw), 1 if answer.drip else len(raw)):
                self.wfile.write(raw[start : start + 1] if answer.drip else raw)
                time.sleep(answer.drip)
            self.close_connection = self.close_connection or answer.cut

        def log_message(self, format: str, *args: Any) -> None:
            pass

    class Server(ThreadingHTTPServer):
        def handle_error(self, request: Any, client_address: Any) -> None:
            """Clients that hang up are part of the tests."""

    http = Server(("127.0.0.1", 0), Handler)
    http.daemon_threads = True
    wiki.url = f"http://127.0.0.1:{http.server_address[1]}/w/api.php"
    thread = threading.Thread(target=http.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield wiki
    finally:
        http.shutdown()
        http.server_close()
        thread.join()
