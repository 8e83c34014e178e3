"""Why an actor ended: `ExitReason`, as in OTP, and the messages that carry it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, cast

from pykka import ActorRef

ExitKind = Literal["normal", "shutdown", "killed", "error"]


@dataclass(frozen=True, slots=True)
class ExitReason:
    """The reason of an actor's end.

    Attributes:
        kind: "normal" (it stopped of its own accord or by `stop`), "shutdown" (its supervisor or system wanted it),
            "killed", or "error".
        exception: what it failed with; set for "error", and where a `Shutdown` carries a cause.
    """

    kind: ExitKind
    exception: BaseException | None = None

    @property
    def abnormal(self) -> bool:
        """True for "killed" and "error": a transient child is restarted."""
        return self.kind in ("killed", "error")

    def __str__(self) -> str:
        if self.exception is None:
            return self.kind
        return f"{self.kind}: {type(self.exception).__name__}: {self.exception}"


NORMAL = ExitReason("normal")
SHUTDOWN = ExitReason("shutdown")
KILLED = ExitReason("killed")


@dataclass(frozen=True, slots=True)
class Down:
    """A monitored actor has ended. Delivered exactly once per monitor."""

    ref: ActorRef[Any]
    reason: ExitReason


@dataclass(frozen=True, slots=True)
class Exit:
    """A linked actor has ended; only an actor that traps exits gets this message."""

    ref: ActorRef[Any]
    reason: ExitReason


class Ignore(Exception):
    """Raised in ``on_start`` or in the entry of ``lifespan``: the actor refuses to start. It is not a failure."""


class Shutdown(Exception):
    """Raised in an actor's own code to end it with the reason "shutdown": it is not restarted unless permanent.

    Args:
        cause: kept as the exit reason's `exception`.
    """

    def __init__(self, cause: BaseException | None = None) -> None:
        super().__init__(str(cause) if cause is not None else "shutdown")
        self.cause = cause


class StrayCancellation(Exception):
    """Code under an actor raised a cancellation that nobody had asked of the actor's task.

    It awaited, say, an asyncio task or future that a stranger had cancelled. In the wrong hands such an exception ends
    the whole system, as it looks like the system's own end; here it is an error like any other. The cancellation is
    its ``__cause__``.
    """


def reason_of(error: BaseException) -> ExitReason:
    """The exit reason for an exception that ended an actor.

    A group that holds one exception stands for it: task groups in a lifespan wrap whatever passes through them.
    """
    while isinstance(error, BaseExceptionGroup):
        first, *more = cast("BaseExceptionGroup[BaseException]", error).exceptions
        if more:
            break
        error = first
    if isinstance(error, Shutdown):
        return ExitReason("shutdown", error.cause)
    return ExitReason("error", cast("BaseException", error))
