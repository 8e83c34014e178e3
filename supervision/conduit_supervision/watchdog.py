"""A blocked event loop, found and shown: one handler that does not yield stops every actor of the system."""

from __future__ import annotations

import logging
import sys
import threading
import time
import traceback

from conduit_supervision.loops import Loop

logger = logging.getLogger("conduit_supervision")


class LoopWatchdog:
    """A thread that asks the loop for a sign of life, and logs the stack that blocks it when none comes.

    It costs the loop one callback per check. Each blocking is logged once, and its length when it is over.

    Args:
        blocked_after: seconds without a sign of life that count as blocked.
    """

    def __init__(self, loop: Loop, blocked_after: float) -> None:
        self._loop = loop
        self._blocked_after = blocked_after
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="conduit loop watchdog", daemon=True)

    def start(self) -> None:
        """Begin to watch."""
        self._thread.start()

    def stop(self) -> None:
        """Stop watching. It does not wait for the thread, which ends at once."""
        self._stop.set()

    def _watch(self) -> None:
        while not self._stop.wait(self._blocked_after / 2):
            alive = threading.Event()
            asked = time.monotonic()
            self._loop.call_soon(alive.set)
            if alive.wait(self._blocked_after) or self._stop.is_set():
                continue
            frame = sys._current_frames().get(self._loop.thread_id)  # pyright: ignore[reportPrivateUsage] (there is no other way)
            stack = "".join(traceback.format_stack(frame)) if frame is not None else "(no stack)"
            logger.error("the event loop is blocked for more than %g s by:\n%s", self._blocked_after, stack)
            while not alive.wait(self._blocked_after) and not self._stop.is_set():
                continue
            if alive.is_set():
                logger.error("the event loop was blocked for %.2f s", time.monotonic() - asked)
