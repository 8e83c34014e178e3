"""`Limits`: the bounds of a hub or a client, with their defaults, in one table."""

from __future__ import annotations

from dataclasses import dataclass

from conduit_actors.errors import ConfigurationError


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds on calls and results. Times in seconds, counts in calls, text in characters. None means no bound.

    Attributes:
        max_concurrency: calls that run at once in the whole hub.
        per_server: calls that run at once on one server.
        per_principal: calls that run at once for one principal.
        queue: calls that may wait for a place; one more is answered `overloaded` at once.
        call_timeout: the whole life of a call: queue, approval, hooks and request included.
        approval_timeout: how long the approver may take; then it is a denial. None: as long as the call lives.
        ready_timeout: how long a call waits for a server that is starting or restarting.
        max_result_chars: text of one result that reaches a model; head and tail are kept.
        max_image_bytes: a larger image becomes a placeholder (Anthropic's documented limit, 2026-12-01: 5 MB each).
        max_argument_chars: a longer arguments string is refused before it is parsed.
        max_echo_chars: how much of a model's bad input an error text repeats.
    """

    max_concurrency: int | None = 64
    per_server: int | None = 32
    per_principal: int | None = 32
    queue: int = 1_024
    call_timeout: float = 300.0
    approval_timeout: float | None = None
    ready_timeout: float = 10.0
    max_result_chars: int | None = 100_000
    max_image_bytes: int = 5 * 1024 * 1024
    max_argument_chars: int = 10_000_000
    max_echo_chars: int = 500

    def __post_init__(self) -> None:
        for name in ("max_concurrency", "per_server", "per_principal", "max_result_chars"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ConfigurationError(f"Limits.{name} must be at least 1, or None")
        if self.queue < 0:
            raise ConfigurationError("Limits.queue must not be negative")
        for name in ("call_timeout", "approval_timeout", "ready_timeout"):
            value = getattr(self, name)
            if value is not None and value <= 0:
                raise ConfigurationError(f"Limits.{name} must be greater than 0")
