"""`ConnectionDispatcher`: stands between the SDK's session and its dispatcher.

It sees each raw tool list before the SDK validates it, so that one bad tool costs itself only; each raw result, so
that a malformed content block costs itself only; and the end of the connection.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import anyio
from mcp.shared.dispatcher import CallOptions, Dispatcher, OnNotify, OnNotifyIntercept, OnRequest

from conduit_actors.connection.wire import isolate_blocks, keep_good_tools


class ConnectionDispatcher(Dispatcher[Any]):
    """Delegates to `inner`.

    Args:
        on_quarantine: called with (name, reason) for each tool that is left out of a list.
        on_end: called once, when the connection has ended or the session leaves it.
    """

    def __init__(
        self, inner: Dispatcher[Any], on_quarantine: Callable[[str, str], None], on_end: Callable[[], None]
    ) -> None:
        self._inner = inner
        self._on_quarantine = on_quarantine
        self._on_end = on_end

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None
    ) -> dict[str, Any]:
        raw = await self._inner.send_raw_request(method, params, opts)
        if method == "tools/list":
            raw["tools"] = keep_good_tools(raw.get("tools"), self._on_quarantine)
        elif method == "tools/call" and raw.get("resultType") != "input_required":
            raw = isolate_blocks(raw)
        return raw

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
            self._on_end()
