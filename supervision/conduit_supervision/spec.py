"""What a supervisor is told: `ChildSpec`, `RestartIntensity`, and the error for its misuse."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pykka import Actor

Restart = Literal["permanent", "transient", "temporary"]
Strategy = Literal["one_for_one", "one_for_all", "rest_for_one"]
AutoShutdown = Literal["never", "any_significant", "all_significant"]
ShutdownTime = float | Literal["brutal_kill", "infinity"]


class ChildError(Exception):
    """A supervisor refuses a request.

    Attributes:
        code: already_present, already_started, not_found, running, restarting or max_children, as in OTP.
    """

    def __init__(self, code: str, child_id: object) -> None:
        super().__init__(f"{code}: {child_id!r}")
        self.code = code
        self.child_id = child_id


@dataclass(frozen=True, slots=True)
class ChildSpec:
    """How a supervisor starts, restarts and stops one child.

    Attributes:
        id: unique among the supervisor's children.
        actor_class: a `TaskActor` (a `Supervisor` too) or a `pykka.ThreadingActor`.
        args, kwargs: for its ``__init__``, at each start.
        restart: "permanent": always; "transient": after "killed" and "error" only; "temporary": never.
        shutdown: seconds between the wish and the kill; "brutal_kill": kill at once; "infinity": wait, for supervisors.
        type: "worker" or "supervisor"; what `count_children` goes by.
        significant: its own end may end the supervisor, see `auto_shutdown`.
        name: registered in the system at each start, so that `ActorSystem.whereis` finds the present incarnation.
    """

    id: Any
    actor_class: type[Actor]
    args: Sequence[Any] = ()
    kwargs: Mapping[str, Any] | None = None
    restart: Restart = "permanent"
    shutdown: ShutdownTime = 5.0
    type: Literal["worker", "supervisor"] = "worker"
    significant: bool = False
    name: str | None = None

    def __post_init__(self) -> None:
        if self.restart not in ("permanent", "transient", "temporary"):
            raise ValueError(f"child {self.id!r}: restart is permanent, transient or temporary, not {self.restart!r}")
        if isinstance(self.shutdown, str):
            if self.shutdown not in ("brutal_kill", "infinity"):
                raise ValueError(f"child {self.id!r}: shutdown is seconds, 'brutal_kill' or 'infinity'")
        elif self.shutdown < 0:
            raise ValueError(f"child {self.id!r}: shutdown is negative")
        if self.significant and self.restart == "permanent":
            raise ValueError(f"child {self.id!r}: a permanent child cannot be significant")


@dataclass(frozen=True, slots=True)
class RestartIntensity:
    """At most `max_restarts` restarts within any `max_seconds` seconds; one more and the supervisor gives up."""

    max_restarts: int = 3
    max_seconds: float = 5.0

    def __post_init__(self) -> None:
        if self.max_restarts < 0 or self.max_seconds <= 0:
            raise ValueError("max_restarts must not be negative, max_seconds must be greater than 0")


class RestartWindow:
    """Counts restarts against an intensity; the window slides."""

    def __init__(self, intensity: RestartIntensity) -> None:
        self._intensity = intensity
        self._times: deque[float] = deque()

    def exceeded(self, now: float) -> bool:
        """Count one restart at `now` (seconds); True if it is one too many."""
        self._times.append(now)
        while self._times[0] <= now - self._intensity.max_seconds:
            self._times.popleft()
        return len(self._times) > self._intensity.max_restarts
