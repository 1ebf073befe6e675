"""The protocol, against a server of a few lines that echoes what it is sent."""

import socket
import socketserver
import threading
from contextlib import contextmanager

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.environments.scienceworld.gateway import Gateway, GatewayError, Reference, reference

TOKEN = "opensesame"
# Everything that can be written in UTF-8.
TEXTS = st.text(st.characters(exclude_categories=["Cs"]))


class Echo(socketserver.StreamRequestHandler):
    """Answers ``echo`` with its argument, ``lengths`` with nothing at all, and others with an error."""

    def handle(self):
        assert self.line() == "A"
        if self.line() != TOKEN:
            self.wfile.write(b"!xsno such token\n")
            return
        self.wfile.write(b"!yv\n")
        while (command := self.line()) is not None:
            lines = []
            while (line := self.line()) != "e":
                lines.append(line)
            self.answer(command, lines)

    def line(self):
        line = self.rfile.readline()
        return line.decode().removesuffix("\n") if line else None

    def answer(self, command, lines):
        if command == "i":
            self.wfile.write(b"!yro1\n")
        elif lines[1] == "echo":
            self.wfile.write(f"!y{lines[2]}\n".encode())
        elif lines[1] == "toString":
            self.wfile.write(b"!ysjava.lang.Oh: no\n")
        elif lines[1] == "throw":
            self.wfile.write(b"!xro7\n")
        elif lines[1] == "leave":
            self.request.shutdown(socket.SHUT_RDWR)
        elif lines[1] != "sleep":
            self.wfile.write(b"!xsno\\nsuch method\n")


@contextmanager
def connected(seconds=10.0, token=TOKEN):
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Echo) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        try:
            gateway = Gateway(server.server_address[1], token, seconds)
            yield gateway
            gateway.close()
        finally:
            server.shutdown()


@settings(deadline=None, max_examples=30)
@given(st.lists(TEXTS | st.integers(-(2**31), 2**31 - 1) | st.none(), min_size=1, max_size=5))
def test_values_travel_unchanged(values):
    with connected() as gateway:
        assert [gateway.call(Reference("t"), "echo", value) for value in values] == values


@pytest.mark.parametrize("value", ["a\\nb", "\\", "\n", "\r\n", "\\\n", "\u2028", "!xs"])
def test_what_looks_like_the_protocol_is_text(value):
    with connected() as gateway:
        assert gateway.call("some.Class", "echo", value) == value


def test_objects():
    with connected() as gateway:
        made = gateway.new("java.lang.Object")
        assert gateway.call(made, "echo", made) == made == Reference("o1")
        with pytest.raises(GatewayError, match="an object was expected, not 'x'"):
            reference(gateway.call(made, "echo", "x"))


@pytest.mark.parametrize(
    ("method", "words"),
    [("throw", "java.lang.Oh: no"), ("unknown", "no\nsuch method"), ("leave", "closed")],
)
def test_failures_say_why(method, words):
    with connected() as gateway, pytest.raises(GatewayError, match=words):
        gateway.call("some.Class", method)


def test_a_server_that_is_silent_is_not_waited_for():
    with connected(0.1) as gateway, pytest.raises(GatewayError) as caught:
        gateway.call("some.Class", "sleep")
    assert isinstance(caught.value.__cause__, TimeoutError)


def test_a_wrong_token_is_refused():
    with pytest.raises(GatewayError, match="no such token"), connected(token="guess"):
        pass
