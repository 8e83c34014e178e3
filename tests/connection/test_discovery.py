"""The tool list: all pages, caps, bad tools among good ones, changes."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest
from mcp.server.mcpserver import Context, MCPServer

from conduit_actors.connection import Connection, open_connection
from conduit_actors.server import Server
from servers import stdio_server

pytestmark = pytest.mark.anyio


def names(connection: Connection) -> list[str]:
    return [tool["name"] for tool in connection.tools]


async def test_all_pages_are_read() -> None:
    with anyio.fail_after(20):
        async with open_connection(stdio_server("three-pages")) as connection:
            assert names(connection) == [f"tool{number}" for number in range(6)]


async def test_endless_pages_stop_at_the_cap_of_pages() -> None:
    with anyio.fail_after(20):
        async with open_connection(stdio_server("endless-pages", max_pages=7)) as connection:
            assert len(connection.tools) == 7


async def test_tools_stop_at_the_cap_of_tools() -> None:
    with anyio.fail_after(20):
        async with open_connection(stdio_server("endless-pages", max_tools=5)) as connection:
            assert len(connection.tools) == 5
        async with open_connection(stdio_server(max_tools=2)) as connection:
            assert names(connection) == ["echo", "wait"]
            assert ("die", "the server has more than 2 tools") in connection.quarantined


async def test_a_repeated_cursor_ends_the_list_and_doubles_nothing() -> None:
    with anyio.fail_after(20):
        async with open_connection(stdio_server("repeat-cursor")) as connection:
            assert names(connection) == ["echo", "pid"]
            assert connection.quarantined == ()
            result = await connection.call_tool("seen", {"method": "tools/list"}, timeout=5)
            assert result["content"][0]["text"].count("'tools/list'") == 2


async def test_of_two_tools_with_one_name_the_first_is_kept_and_the_other_reported() -> None:
    with anyio.fail_after(20):
        async with open_connection(stdio_server("duplicates")) as connection:
            assert names(connection).count("echo") == 1
            assert connection.tools[0]["description"] == "Does echo."
            assert "second" in dict(connection.quarantined)["echo"]


@pytest.mark.parametrize("protocol", ["2024-11-05", "2025-11-25"])
async def test_bad_tools_cost_only_themselves(protocol: str) -> None:
    with anyio.fail_after(20):
        async with open_connection(stdio_server("bad-tools", f"protocol={protocol}")) as connection:
            tools = {tool["name"]: tool for tool in connection.tools}
            reasons = dict(connection.quarantined)
            assert set(reasons) == {"no_object", "list_schema", "#2", "#8"}
            assert "string" in reasons["no_object"]
            assert {"echo", "pid", "no_schema", "bad_optional", "required_inside", "null_kept"} <= set(tools)
            assert tools["no_schema"]["inputSchema"] == {"type": "object", "properties": {}}
            assert set(tools["bad_optional"]) == {"name", "inputSchema"}
            assert tools["required_inside"]["inputSchema"]["properties"] == {"coin": {"type": "string"}}
            assert tools["null_kept"]["inputSchema"]["properties"] == {"a": {"enum": [None, 1]}}
            result = await connection.call_tool("echo", {"text": "hi"}, timeout=5)
            assert result["content"][0]["text"] == "hi"


async def test_a_list_that_is_none_is_reported() -> None:
    with anyio.fail_after(20):
        async with open_connection(stdio_server("null-list")) as connection:
            assert connection.tools == ()
            assert "not an array" in dict(connection.quarantined)["tools"]


async def test_a_change_is_heard_of_once_however_often_it_is_said() -> None:
    changes = 0
    changed = anyio.Event()

    def note() -> None:
        nonlocal changes
        changes += 1
        changed.set()

    with anyio.fail_after(20):
        async with open_connection(stdio_server(), on_tools_changed=note) as connection:
            await connection.call_tool("grow", {}, timeout=5)
            await changed.wait()
            assert names(connection)[-1] == "grown"
            # Reading it again finds nothing new: the five notices have been dealt with.
            assert not await connection.refresh_tools()
            assert changes == 1


async def test_a_change_is_heard_of_at_the_stateless_revision() -> None:
    mcp = MCPServer("growing")
    send, changes = anyio.create_memory_object_stream[None](100)

    @mcp.tool()
    async def grow(name: str, ctx: Context) -> str:
        mcp.add_tool(lambda: "new", name=name, description="New.")
        await ctx.notify_tools_changed()
        return "grown"

    with anyio.fail_after(30):
        server = Server("in", transport=mcp)
        async with (
            send,
            changes,
            open_connection(server, on_tools_changed=lambda: send.send_nowait(None)) as connection,
        ):
            assert connection.protocol_version == "2026-07-28"
            # The first change may come before anybody listens; that it is found shows that somebody does now.
            for name in ("first", "second"):
                await connection.call_tool("grow", {"name": name}, timeout=5)
                await changes.receive()
                assert name in names(connection)


async def test_a_tool_with_an_invalid_header_annotation_is_quarantined(tmp_path: Path) -> None:
    mcp = MCPServer("headers")

    @mcp.tool()
    def fine(a: int) -> int:
        return a

    @mcp.tool()
    def bad(a: int) -> int:
        return a

    listed = {tool.name: tool for tool in mcp._tool_manager.list_tools()}
    listed["bad"].parameters["properties"]["a"]["x-mcp-header"] = "not a token"
    with anyio.fail_after(20):
        async with open_connection(Server("in", transport=mcp)) as connection:
            assert names(connection) == ["fine"]
            assert "x-mcp-header" in dict(connection.quarantined)["bad"]
