"""What a system tells its listeners, as plain data: starts, crashes, restarts, kills, zombies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pykka import ActorRef

from conduit_supervision.exits import ExitReason


@dataclass(frozen=True, slots=True)
class Event:
    """Base of all events. `ref` is the actor concerned."""

    ref: ActorRef[Any]


@dataclass(frozen=True, slots=True)
class ChildStarted(Event):
    """A supervisor started a child, for the first time or again."""

    child_id: object
    supervisor: ActorRef[Any]
    restart: bool


@dataclass(frozen=True, slots=True)
class ChildExited(Event):
    """A child ended without its supervisor having asked for it."""

    child_id: object
    supervisor: ActorRef[Any]
    reason: ExitReason


@dataclass(frozen=True, slots=True)
class RestartScheduled(Event):
    """A child will be started again in `delay` seconds; it is attempt number `attempt` in a row."""

    child_id: object
    supervisor: ActorRef[Any]
    attempt: int
    delay: float


@dataclass(frozen=True, slots=True)
class GaveUp(Event):
    """A supervisor's restart intensity was exceeded by this child; the supervisor ends. `ref` is the supervisor."""

    child_id: object
    reason: ExitReason


@dataclass(frozen=True, slots=True)
class Killed(Event):
    """An actor was killed."""


@dataclass(frozen=True, slots=True)
class ZombieFound(Event):
    """A killed actor did not end in time."""
