"""Calling Java: a client of py4j's gateway server, one socket and one call after another.

Only the protocol is py4j's (a command is lines of text, an answer is one line). Its own Python client
writes tracebacks to the root logger when a process dies, and cannot wait longer for one call than for
another.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Reference:
    """An object that stays in Java."""

    id: str


Value = str | int | float | bool | Reference | None

_READERS: Final = {"i": int, "L": int, "d": float, "b": lambda text: text == "true"}
_ESCAPED: Final = re.compile(r"\\(.)")
_MEANING: Final = {"n": "\n", "r": "\r"}


class GatewayError(Exception):
    """Java refused or failed; or the connection broke, or took too long: then its cause is an ``OSError``."""


class Gateway:
    """A connection. After an error it must be closed: answers could no longer be told apart.

    Args:
        port: of the gateway server, on the loopback interface.
        token: proves that we are its owner.
        seconds: how long to wait for an answer; may be changed at any time.

    Raises:
        GatewayError: nothing listens there, or the token is wrong.
    """

    def __init__(self, port: int, token: str, seconds: float) -> None:
        self.seconds = seconds
        try:
            self._socket = socket.create_connection(("127.0.0.1", port), timeout=seconds)
        except OSError as error:
            raise GatewayError(f"no connection to its port: {error}") from error
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._answers = self._socket.makefile("rb")
        self._ask(f"A\n{token}\n")

    def call(self, target: Reference | str, method: str, *arguments: Value) -> Value:
        """One call; a text as target is the name of a class, whose static method is called.

        Raises:
            GatewayError: it failed.
        """
        name = target.id if isinstance(target, Reference) else f"z:{target}"
        return self._ask(f"c\n{name}\n{method}\n{_parts(arguments)}e\n")

    def new(self, name: str, *arguments: Value) -> Reference:
        """A new object of a class."""
        return reference(self._ask(f"i\n{name}\n{_parts(arguments)}e\n"))

    def forget(self, found: Reference) -> None:
        """Let Java collect an object."""
        self._ask(f"m\nd\n{found.id}\ne\n")

    def close(self) -> None:
        """Close the connection."""
        self._answers.close()
        self._socket.close()

    def _ask(self, command: str) -> Value:
        # Never several at once: the server's later answers would wait for acknowledgements (40 ms each).
        try:
            self._socket.settimeout(self.seconds)
            self._socket.sendall(command.encode())
            answer = self._answers.readline()
        except OSError as error:
            raise GatewayError(str(error) or type(error).__name__) from error
        return self._read(answer)

    def _read(self, answer: bytes) -> Value:
        text = answer.decode("utf-8", "replace").rstrip("\n")
        if text[:2] != "!y":
            raise GatewayError(self._failure(text))
        kind, rest = text[2:3], text[3:]
        if kind in ("", "v", "n"):
            return None
        if kind == "s":
            return _unescaped(rest)
        reader = _READERS.get(kind)
        return reader(rest) if reader else Reference(rest)

    def _failure(self, text: str) -> str:
        if not text:
            return "the connection was closed"
        if text[:3] == "!xr":
            return str(self.call(Reference(text[3:]), "toString"))
        return _unescaped(text[3:]) or "no reason given"


def reference(value: Value) -> Reference:
    """The value, which must be an object.

    Raises:
        GatewayError: it is none.
    """
    if not isinstance(value, Reference):
        raise GatewayError(f"an object was expected, not {value!r}")
    return value


def _parts(arguments: Sequence[Value]) -> str:
    return "".join(f"{_part(argument)}\n" for argument in arguments)


def _part(value: Value) -> str:
    if value is None:
        return "n"
    if isinstance(value, bool):
        return f"b{value}"
    if isinstance(value, int):
        return f"i{value}"
    if isinstance(value, float):
        return f"d{value!r}"
    if isinstance(value, Reference):
        return f"r{value.id}"
    return "s" + value.replace("\\", "\\\\").replace("\r", "\\r").replace("\n", "\\n")


def _unescaped(text: str) -> str:
    return _ESCAPED.sub(lambda match: _MEANING.get(match[1], match[1]), text)
