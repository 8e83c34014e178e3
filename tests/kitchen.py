"""An MCP server with a tool for every need of the tests. In process: ``kitchen.build()``; over stdio: run this file."""

from __future__ import annotations

import base64
import os
import sys
from typing import Any

import anyio
from mcp.server.mcpserver import Context, Image, MCPServer
from mcp_types import CallToolResult, TextContent

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


class Kitchen(MCPServer):
    """The server, with a count of the calls that reached it."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.calls: list[str] = []
        self.cancelled: list[str] = []
        self.seen_meta: list[dict[str, Any]] = []


def build(name: str = "kitchen") -> Kitchen:
    server = Kitchen(name)

    @server.tool()
    async def echo(text: str = "", value: int | None = None) -> str:
        """Say it again."""
        server.calls.append("echo")
        return text if value is None else f"{text}{value}"

    @server.tool()
    async def add(left: int, right: int) -> int:
        """Add two numbers."""
        server.calls.append("add")
        return left + right

    @server.tool()
    async def sleep(seconds: float, text: str = "slept") -> str:
        """Take a while."""
        server.calls.append("sleep")
        try:
            await anyio.sleep(seconds)
        except anyio.get_cancelled_exc_class():
            server.cancelled.append("sleep")
            raise
        return text

    @server.tool()
    async def cancellations() -> int:
        """How many sleeps were cancelled."""
        return len(server.cancelled)

    @server.tool()
    async def progress(steps: int, pause: float, ctx: Context[Any, Any]) -> str:
        """Report progress on the way."""
        for step in range(steps):
            await anyio.sleep(pause)
            await ctx.report_progress(step + 1, steps, f"step {step + 1}")
        return "done"

    @server.tool()
    async def picture() -> Image:
        """A picture."""
        return Image(data=PNG, format="png")

    @server.tool()
    async def fail(text: str = "it broke") -> CallToolResult:
        """Fail as tools do."""
        return CallToolResult(content=[TextContent(type="text", text=text)], is_error=True)

    @server.tool()
    async def flood(characters: int) -> CallToolResult:
        """A lot of text, marked at both ends."""
        text = "HEAD" + "x" * (characters - 8) + "TAIL"
        return CallToolResult(content=[TextContent(type="text", text=text)])

    @server.tool()
    async def nothing() -> CallToolResult:
        """No output at all."""
        return CallToolResult(content=[])

    @server.tool()
    async def meta(ctx: Context[Any, Any]) -> str:
        """What came in _meta, as JSON."""
        found = ctx.request_context.meta
        return str(dict(found or {}))

    @server.tool()
    async def pid() -> int:
        """The process id."""
        return os.getpid()

    @server.tool()
    async def die() -> str:
        """End the process in the middle of the call."""
        os._exit(3)

    return server


if __name__ == "__main__":
    build(sys.argv[1] if len(sys.argv) > 1 else "kitchen").run("stdio")
