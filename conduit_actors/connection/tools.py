"""`ToolList`: a server's tools, read page by page, swapped in one step, and read again when they change."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from typing import Any

import anyio
import mcp_types as types
from mcp import ClientSession
from mcp.client.subscriptions import SubscriptionLost, listen
from mcp.shared.exceptions import MCPError
from mcp_types import METHOD_NOT_FOUND

from conduit_actors.connection.wire import good_page
from conduit_actors.server import Server

_DEBOUNCE_SECONDS = 0.1
_LISTEN_AGAIN_SECONDS = 1.0
_LISTEN_AGAIN_MAXIMUM = 30.0
_MAX_QUARANTINED = 1_000

logger = logging.getLogger("conduit_actors.connection")


class ToolList:
    """The tools of one session.

    Attributes:
        tools: in wire form, in the server's order.
        quarantined: (name, reason) of what is left out.
    """

    def __init__(self, server: Server) -> None:
        self._server = server
        self._reading = anyio.Lock()
        self._page: list[dict[str, Any]] = []
        self._left_out: dict[str, str] = {}
        self._stale = anyio.Event()
        self.tools: tuple[dict[str, Any], ...] = ()
        self.quarantined: tuple[tuple[str, str], ...] = ()

    def sift(self, page: dict[str, Any], version: str) -> dict[str, Any]:
        """Make a raw page safe for the SDK, and keep its tools in wire form."""
        good = good_page(page, version, self._leave_out)
        self._page = good["tools"]
        # The SDK may change what it gets.
        return {**good, "tools": list(good["tools"])}

    def mark_stale(self) -> None:
        """The list has changed on the server."""
        self._stale.set()

    async def read(self, session: ClientSession) -> bool:
        """Read all pages and swap the list. Says whether it differs from what it was.

        Stops at `Server.max_pages` and `Server.max_tools`, and at a cursor that came before.

        Raises:
            MCPError: the server refused, or the connection ended; the old list stays.
        """
        async with self._reading:
            self._left_out = {}
            try:
                tools = await self._read_pages(session)
            except MCPError as refusal:
                if refusal.error.code != METHOD_NOT_FOUND:
                    raise
                tools = ()  # a server of prompts or resources only
            changed = _canonical(tools) != _canonical(self.tools)
            self.tools, self.quarantined = tools, tuple(self._left_out.items())
            return changed

    async def _read_pages(self, session: ClientSession) -> tuple[dict[str, Any], ...]:
        tools: dict[str, dict[str, Any]] = {}
        seen: set[str] = set()
        cursor: str | None = None
        for _ in range(self._server.max_pages):
            page = await session.list_tools(params=types.PaginatedRequestParams(cursor=cursor))
            for tool in self._page:
                if tool["name"] in tools:
                    # A page that comes again is not news; another tool of the same name is.
                    if tool != tools[tool["name"]]:
                        self._leave_out(tool["name"], "a second, different tool has this name; the first is kept")
                elif len(tools) < self._server.max_tools:
                    tools[tool["name"]] = tool
                else:
                    self._leave_out(tool["name"], f"the server has more than {self._server.max_tools} tools")
            cursor = page.next_cursor
            if cursor is None or len(tools) >= self._server.max_tools:
                return tuple(tools.values())
            if cursor in seen:
                logger.warning("server %s: its tool list repeats a cursor; later pages are not read", self._server.id)
                return tuple(tools.values())
            seen.add(cursor)
        logger.warning("server %s: its tool list has over %d pages", self._server.id, self._server.max_pages)
        return tuple(tools.values())

    def _leave_out(self, name: str, reason: str) -> None:
        if len(self._left_out) < _MAX_QUARANTINED:
            self._left_out.setdefault(name[:200], reason)

    async def follow(self, session: ClientSession, on_changed: Callable[[], None]) -> None:
        """Read the list again whenever it is stale; many notices in a row count once. Ends by cancellation."""
        while True:
            await self._stale.wait()
            await anyio.sleep(_DEBOUNCE_SECONDS)
            self._stale = anyio.Event()
            try:
                with anyio.fail_after(self._server.connect_timeout):
                    changed = await self.read(session)
            except (MCPError, TimeoutError) as error:
                logger.warning("server %s: its changed tool list cannot be read: %s", self._server.id, error)
                continue
            if changed:
                on_changed()

    async def subscribe(self, session: ClientSession) -> None:
        """2026-07-28: hear of changes on a stream that is kept open. Ends when the server does not offer it."""
        pause = _LISTEN_AGAIN_SECONDS
        while True:
            try:
                async with listen(session, tools_list_changed=True) as subscription:
                    # What changed while nobody listened is found by reading the list.
                    self.mark_stale()
                    async for _ in subscription:
                        pause = _LISTEN_AGAIN_SECONDS
                        self.mark_stale()
            except SubscriptionLost:
                pass
            except MCPError as refusal:
                if refusal.error.code == METHOD_NOT_FOUND:
                    return
            await anyio.sleep(pause)
            pause = min(2 * pause, _LISTEN_AGAIN_MAXIMUM)


def _canonical(tools: tuple[dict[str, Any], ...]) -> str:
    return json.dumps(tools, sort_keys=True)
