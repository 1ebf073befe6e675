"""Ranks that are forked, so that the libraries are loaded once."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable


def fork_ranks(count: int, act: Callable[[int], int]) -> list[int]:
    """Let each rank act in a process of its own; their exit statuses, 1 where one raised."""
    children: list[int] = []
    for number in range(count):
        child = os.fork()
        if child == 0:
            status = 1
            try:
                status = act(number)
            except Exception:
                traceback.print_exc()
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(status)
        children.append(child)
    return [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
