"""Text from outside, made fit to be shown."""

from __future__ import annotations


def printable(text: str) -> str:
    """The text on one line: control characters, line breaks and separators, lone surrogates become spaces."""
    return "".join(char if char.isprintable() else " " for char in text)
