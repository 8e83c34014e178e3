"""`CallRecord`: what is known of one request while it is on its way.

It travels in a context variable, since the SDK offers no other way from a caller to the transport that writes the
caller's request.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any


class CallRecord:
    """Notes about one request.

    Attributes:
        sent: the server may have seen the request.
        raw: the result in wire form, malformed content blocks replaced.
        status: the HTTP status of an answer that was not a success.
        session_lost: the server no longer knows the HTTP session, so it did nothing.
    """

    __slots__ = ("_on_sent", "raw", "sent", "session_lost", "status")

    def __init__(self, on_sent: Callable[[], None] | None = None) -> None:
        self._on_sent = on_sent
        self.sent = False
        self.raw: dict[str, Any] | None = None
        self.status: int | None = None
        self.session_lost = False

    def mark_sent(self) -> None:
        """From now on the server may have seen the request."""
        self.sent = True
        on_sent, self._on_sent = self._on_sent, None
        if on_sent is not None:
            on_sent()

    def mark_refused(self) -> None:
        """The server refused the request unseen, e.g. for its credentials."""
        self.sent = False


current_call: ContextVar[CallRecord | None] = ContextVar("conduit_current_call", default=None)
