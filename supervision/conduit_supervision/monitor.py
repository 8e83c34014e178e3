"""`Monitor`: watching another actor's life, as Erlang's monitors do."""

# pyright: reportPrivateUsage=false
# The modules of this package are one unit, and Pykka has its extension points for new actor types in private names.

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Any

from pykka import ActorDeadError, ActorRef

from conduit_supervision.exits import Down
from conduit_supervision.future import TaskFuture

if TYPE_CHECKING:
    from conduit_supervision.ref import TaskActorRef

logger = logging.getLogger("conduit_supervision")


class Monitor:
    """One watch on one actor. Its `Down` comes exactly once, unless the monitor is cancelled before.

    Use `await monitor.down()`, or ``async for down in monitor`` (which ends after the one), or give a callback or an
    actor to notify to `TaskActorRef.monitor`.
    """

    def __init__(
        self,
        ref: TaskActorRef[Any],
        *,
        notify: ActorRef[Any] | None = None,
        callback: Callable[[Down], object] | None = None,
    ) -> None:
        self._ref = ref
        self._notify = notify
        self._callback = callback
        self._cancelled = False
        self._down: TaskFuture[Down] = TaskFuture()
        ref.ended.add_done_callback(self._ended)

    def _ended(self) -> None:
        if self._cancelled:
            return
        reason = self._ref.exit_reason
        assert reason is not None
        down = Down(self._ref, reason)
        if not self._down.set_if_pending(down):
            return
        if self._notify is not None:
            try:
                self._notify.tell(down)
            except ActorDeadError:
                return
        if self._callback is not None:
            try:
                self._callback(down)
            except Exception:
                # Somebody else's code: it must not stop the other watchers from hearing.
                logger.exception("a monitor's callback raised")

    async def down(self) -> Down:
        """Wait for the actor's end. The same `Down` again if it was waited for before."""
        return await self._down

    def cancel(self) -> None:
        """Stop watching: no callback and no message after this. Waiters of `down` are left waiting no longer."""
        self._cancelled = True
        self._down.fail_if_pending(ActorDeadError(f"the monitor of {self._ref} was cancelled"))

    async def __aiter__(self) -> AsyncIterator[Down]:
        yield await self._down
