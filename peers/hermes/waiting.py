"""Waiting for a condition, never for a fixed time."""

from __future__ import annotations

import asyncio
import time
from typing import Any, Awaitable, Callable, TypeVar

T = TypeVar("T")
LOOK_EVERY_S = 0.05


def until(what: str, look: Callable[[], T], timeout: float = 60.0, every: float = LOOK_EVERY_S) -> T:
    """Calls `look` repeatedly until it returns something true, and returns that."""
    deadline = time.monotonic() + timeout
    while True:
        seen = look()
        if seen:
            return seen
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {timeout} s in vain: {what}; last seen: {seen!r}")
        time.sleep(every)


async def until_async(what: str, look: Callable[[], Any], timeout: float = 60.0) -> Any:
    """The same inside an event loop; `look` may be a coroutine function."""
    deadline = time.monotonic() + timeout
    while True:
        seen = look()
        if isinstance(seen, Awaitable):
            seen = await seen
        if seen:
            return seen
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {timeout} s in vain: {what}; last seen: {seen!r}")
        await asyncio.sleep(LOOK_EVERY_S)
