"""`Backoff`: the pause before a restart. OTP has none; connections to the outside need one."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Backoff:
    """Exponential delays with jitter. All times in seconds.

    Attributes:
        initial: the first delay.
        maximum: the cap.
        factor: each delay is so many times the one before.
        jitter: "full" draws uniformly between 0 and the delay, so that many clients do not come back at once
            (M. Brooker, "Exponential Backoff And Jitter", 2015); "none" takes the delay itself.
        reset_after: a child that stayed up for so long starts again from the first delay.
    """

    initial: float = 0.1
    maximum: float = 30.0
    factor: float = 2.0
    jitter: Literal["full", "none"] = "full"
    reset_after: float = 60.0

    def __post_init__(self) -> None:
        if self.initial < 0 or self.maximum < self.initial or self.factor < 1 or self.reset_after < 0:
            raise ValueError("a back-off needs 0 <= initial <= maximum, factor >= 1 and reset_after >= 0")

    def ceiling(self, attempt: int) -> float:
        """The longest delay before attempt number `attempt` in a row, counted from 1."""
        try:
            return min(self.initial * self.factor ** (attempt - 1), self.maximum)
        except OverflowError:
            return self.maximum

    def delay(self, attempt: int) -> float:
        """The delay before attempt number `attempt` in a row, counted from 1."""
        ceiling = self.ceiling(attempt)
        return random.uniform(0, ceiling) if self.jitter == "full" else ceiling
