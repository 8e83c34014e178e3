"""`TaskActorRef`: Pykka's ref, with what only a task can do: kill, shutdown, monitor, wait."""

# pyright: reportPrivateUsage=false
# The modules of this package are one unit, and Pykka has its extension points for new actor types in private names.

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

import anyio
from pykka import ActorDeadError, ActorProxy, ActorRef
from pykka._envelope import Envelope
from pykka.messages import _ActorStop

from conduit_supervision.exits import KILLED, ExitReason
from conduit_supervision.future import TaskFuture, refuse_to_block
from conduit_supervision.monitor import Monitor

if TYPE_CHECKING:
    from conduit_supervision.actor import TaskActor
    from conduit_supervision.system import ActorSystem

A = TypeVar("A", bound="TaskActor")


class TaskActorRef(ActorRef[A]):
    """Reference to a `TaskActor`. Usable from any thread; the blocking forms not on the actors' own loop."""

    def __init__(self, actor: A) -> None:
        super().__init__(actor)
        # The actor's end is known here even after the actor object is gone.
        self.ended: TaskFuture[ExitReason] = TaskFuture()

    def actor(self) -> A | None:
        """The actor itself, for code on its loop; None when it is gone."""
        return self._actor_weakref()

    # Messages

    def tell(self, message: Any) -> None:
        """Send a message and go on.

        Raises:
            pykka.ActorDeadError: the actor has ended, or is about to.
        """
        if not self.is_alive():
            raise ActorDeadError(f"{self} not found")
        self.actor_inbox.put(Envelope(message))
        if not self.is_alive():
            self._sweep()

    @overload
    def ask(self, message: Any, *, block: Literal[False], timeout: float | None = None) -> TaskFuture[Any]: ...
    @overload
    def ask(self, message: Any, *, block: Literal[True], timeout: float | None = None) -> Any: ...
    @overload
    def ask(self, message: Any, *, block: bool = True, timeout: float | None = None) -> Any | TaskFuture[Any]: ...
    def ask(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, message: Any, *, block: bool = True, timeout: float | None = None
    ) -> Any | TaskFuture[Any]:
        """Send a message and get a future of the reply, or with `block` wait up to `timeout` seconds for the reply.

        Raises:
            RuntimeError: `block` on the actors' own loop; nothing was sent.
            pykka.Timeout: no reply in time.
            pykka.ActorDeadError: the actor ended before it answered (raised by the future when not blocking).
        """
        if block:
            refuse_to_block()
        future: TaskFuture[Any] = TaskFuture()
        if self.is_alive():
            self.actor_inbox.put(Envelope(message, reply_to=future))
            if not self.is_alive():
                self._sweep()
        else:
            future.fail_if_pending(ActorDeadError(f"{self} not found"))
        return future.get(timeout=timeout) if block else future

    @overload
    def stop(self, *, block: Literal[True], timeout: float | None = None) -> bool: ...
    @overload
    def stop(self, *, block: Literal[False], timeout: float | None = None) -> TaskFuture[bool]: ...
    @overload
    def stop(self, *, block: bool = True, timeout: float | None = None) -> bool | TaskFuture[bool]: ...
    def stop(self, *, block: bool = True, timeout: float | None = None) -> bool | TaskFuture[bool]:
        """Ask the actor to end with reason "normal" once the messages before this one are handled.

        The reply is True, or False if it was dead already. It comes when the actor has ended.
        """
        if block:
            refuse_to_block()
        future: TaskFuture[bool] = TaskFuture()
        if self.is_alive():
            self.actor_inbox.put(Envelope(_ActorStop()))
            if not self.is_alive():
                self._sweep()
            self.ended.add_done_callback(lambda: future.set_if_pending(True))
        else:
            future.set_if_pending(False)
        return future.get(timeout=timeout) if block else future

    def proxy(self) -> ActorProxy[A]:
        """A Pykka proxy; its futures can be awaited."""
        return ActorProxy(actor_ref=self)

    def _sweep(self) -> None:
        # The actor ended while a message was put: nobody else would answer it.
        actor = self.actor()
        if actor is not None and self.ended.done():
            self._on_loop(actor._actor_fail_askers)

    # Life and death

    @property
    def exit_reason(self) -> ExitReason | None:
        """Why the actor ended; None while it lives."""
        return self.ended.get() if self.ended.done() else None

    def started(self) -> TaskFuture[None]:
        """A future of the actor's start: done when it is up, or raises why it is not (`Ignore` if it refused)."""
        actor = self.actor()
        if actor is None:
            future: TaskFuture[None] = TaskFuture()
            future.fail_if_pending(ActorDeadError(f"{self} not found"))
            return future
        return actor._actor_started

    def wait(self) -> TaskFuture[ExitReason]:
        """A future of the actor's end."""
        return self.ended

    def kill(self, reason: ExitReason = KILLED) -> None:
        """Interrupt the actor at once. `on_stop` does not run; the lifespan is unwound by cancellation."""
        actor = self.actor()
        if actor is not None:
            self._on_loop(actor._actor_kill, reason)

    async def shutdown(self, timeout: float | None = 5.0) -> ExitReason:
        """Let the message in hand finish, leave the inbox, run `on_stop`; after `timeout` seconds kill.

        Returns when the actor has ended, in the worst case `timeout` plus the class's `zombie_after` seconds later.
        """
        actor = self.actor()
        if actor is not None and not self.ended.done():
            self._on_loop(actor._actor_request_shutdown)
            with anyio.move_on_after(timeout):
                return await self.ended
            self.kill()
        return await self.ended

    def monitor(
        self, *, notify: ActorRef[Any] | None = None, callback: Callable[[Any], object] | None = None
    ) -> Monitor:
        """Watch the actor: see `Monitor`. With `notify`, that actor gets `Down` as a message; with `callback`, it is
        called with it on the actors' loop. An actor that is dead already is reported all the same."""
        return Monitor(self, notify=notify, callback=callback)

    def _on_loop(self, function: Callable[..., object], *args: object) -> None:
        system: ActorSystem | None = getattr(self.actor(), "_actor_system", None)
        if system is not None:
            system.run_soon(function, *args)
