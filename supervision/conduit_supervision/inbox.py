"""An actor's inbox: filled from any thread, emptied on the actors' loop."""

# pyright: reportPrivateUsage=false
# The modules of this package are one unit, and Pykka has its extension points for new actor types in private names.

from __future__ import annotations

import contextvars
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

from pykka._envelope import Envelope

from conduit_supervision.loops import Loop, Waiter

Item = tuple[Envelope[Any], contextvars.Context]


class Inbox:
    """A FIFO of envelopes, each with the context of its sender.

    Invariant: messages of one sender keep their order, from whatever thread: `put` appends before it wakes.
    """

    __slots__ = ("_items", "_loop", "_wake")

    def __init__(self) -> None:
        self._items: deque[Item] = deque()
        self._wake: Waiter | None = None
        self._loop: Loop | None = None

    def bind(self, loop: Loop) -> None:
        """Say which loop the actor runs on. Messages may have come before."""
        self._loop = loop

    def put(self, envelope: Envelope[Any], /) -> None:
        """Append a message; wake the actor. From any thread; never waits."""
        self._items.append((envelope, contextvars.copy_context()))
        self.wake()

    def wake(self) -> None:
        """Make the actor look at its inbox and its flags. From any thread."""
        loop = self._loop
        if loop is None:
            return
        if threading.get_ident() == loop.thread_id:
            self._set()
        else:
            loop.call_soon(self._set)

    def _set(self) -> None:
        if self._wake is not None:
            self._wake.set()

    async def wait(self, ready: Callable[[], bool]) -> None:
        """Return when there is a message or `ready()`; at once if there is already."""
        while not self._items and not ready():
            assert self._loop is not None
            self._wake = self._loop.waiter()
            # A put from another thread between the check and the line above is seen here.
            if self._items or ready():
                break
            await self._wake.wait()
        self._wake = None

    def pop(self) -> Item | None:
        """The oldest message, or None."""
        return self._items.popleft() if self._items else None

    def get(self) -> Envelope[Any]:
        """The oldest message, for Pykka's interface.

        Raises:
            IndexError: the inbox is empty.
        """
        return self._items.popleft()[0]

    def empty(self) -> bool:
        """Whether there is no message."""
        return not self._items

    def __len__(self) -> int:
        return len(self._items)
