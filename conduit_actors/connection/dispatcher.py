"""`ConnectionDispatcher`: stands between the SDK's session and its dispatcher.

It sees each raw tool list before the SDK validates it, so that one bad tool costs itself only; each raw tool result,
which the SDK need not validate at all; and the end of the connection.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import anyio
from mcp.shared.dispatcher import CallOptions, Dispatcher, OnNotify, OnNotifyIntercept, OnRequest

from conduit_actors.connection.records import current_call
from conduit_actors.connection.wire import isolate_blocks


class DispatcherEvents(Protocol):
    """Who is told what the dispatcher sees."""

    def tools_page(self, page: dict[str, Any]) -> dict[str, Any]:
        """A raw page of the tool list came; give back what the SDK is to see."""
        ...

    def heard(self) -> None:
        """The server answered something."""
        ...

    def ended(self) -> None:
        """The connection is at its end, or the session leaves it."""
        ...


class ConnectionDispatcher(Dispatcher[Any]):
    """Delegates to `inner`.

    Args:
        marks_sent: the transport itself notes on the `CallRecord` when a request is really on its way.
    """

    def __init__(self, inner: Dispatcher[Any], events: DispatcherEvents, *, marks_sent: bool) -> None:
        self._inner = inner
        self._events = events
        self._marks_sent = marks_sent

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None
    ) -> dict[str, Any]:
        call = current_call.get() if method == "tools/call" else None
        if call is not None and not self._marks_sent:
            call.mark_sent()
        raw = await self._inner.send_raw_request(method, params, opts)
        self._events.heard()
        if method == "tools/list":
            return self._events.tools_page(raw)
        if call is None or raw.get("resultType") == "input_required":
            return raw
        # The real result goes round the SDK, which would check all of it again, and fail the call for one bad block.
        call.raw = isolate_blocks(raw)
        return {"content": [], "resultType": "complete"}

    async def notify(self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None) -> None:
        await self._inner.notify(method, params, opts)

    async def run(
        self,
        on_request: OnRequest,
        on_notify: OnNotify,
        on_notify_intercept: OnNotifyIntercept | None = None,
        *,
        task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
    ) -> None:
        try:
            await self._inner.run(on_request, on_notify, on_notify_intercept, task_status=task_status)
        finally:
            self._events.ended()
