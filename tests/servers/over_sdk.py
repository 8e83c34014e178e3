"""An MCP server of the SDK over Streamable HTTP, all revisions: ``python over_sdk.py [stateless]``. Prints its port."""

from __future__ import annotations

import os
import socket
import sys

import anyio
import uvicorn
from mcp.server.mcpserver import Context, MCPServer

mcp = MCPServer("sdk")
cancelled = 0


@mcp.tool()
async def echo(text: str) -> str:
    return text


@mcp.tool()
async def wait() -> str:
    global cancelled
    try:
        await anyio.sleep_forever()
    finally:
        cancelled += 1


@mcp.tool()
async def cancellations() -> int:
    return cancelled


@mcp.tool()
async def grow(name: str, ctx: Context) -> str:
    mcp.add_tool(lambda: "new", name=name, description="New.")
    await ctx.notify_tools_changed()
    return "grown"


@mcp.tool()
async def progress(steps: int, ctx: Context) -> str:
    for step in range(steps):
        await ctx.report_progress(step + 1, steps)
    return "done"


@mcp.tool()
async def switch() -> str:
    """From now on `echo` wants its text in a header too, which no client knows yet."""
    tool = next(tool for tool in mcp._tool_manager.list_tools() if tool.name == "echo")
    tool.parameters["properties"]["text"]["x-mcp-header"] = "Text"
    return "switched"


@mcp.tool()
async def die() -> str:
    os._exit(1)


def main() -> None:
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    app = mcp.streamable_http_app(stateless_http="stateless" in sys.argv[1:])
    config = uvicorn.Config(app, log_level="error")
    print(listener.getsockname()[1], flush=True)
    anyio.run(uvicorn.Server(config).serve, [listener])


main()
