"""Example MCP server: a workshop that orders parts. Run with ``python -m conduit_actors.demo.workshop``."""

from __future__ import annotations

from typing import Literal

from mcp.server.mcpserver import MCPServer

server = MCPServer("workshop", instructions="Orders parts.")

orders: list[str] = []


@server.tool()
def order_part(part: str, count: int = 1, speed: Literal["slow", "fast"] = "slow") -> str:
    """Order a spare part. Costs money."""
    orders.append(part)
    return f"order {len(orders)}: {count} x {part}, {speed}"


@server.tool()
def list_orders() -> list[str]:
    """List what was ordered since the workshop opened."""
    return list(orders)


if __name__ == "__main__":
    server.run("stdio")
