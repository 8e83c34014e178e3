"""Example MCP server: a small library. Run over stdio with ``python -m conduit_actors.demo.library``."""

from __future__ import annotations

import anyio
from mcp.server.mcpserver import MCPServer

server = MCPServer("library", instructions="A small library of computing books.")

BOOKS = {
    "Making reliable distributed systems in the presence of software errors": ("Joe Armstrong", 2003),
    "Communicating Sequential Processes": ("C. A. R. Hoare", 1985),
    "Actors: A Model of Concurrent Computation": ("Gul Agha", 1986),
}


@server.tool()
def find_book(word: str) -> str:
    """Find books whose title or author contains a word."""
    found = [
        f"{title} ({author}, {year})"
        for title, (author, year) in BOOKS.items()
        if word.lower() in f"{title} {author}".lower()
    ]
    return "\n".join(found) or "no book has that word"


@server.tool()
def burn_book(title: str) -> str:
    """Remove a book for ever."""
    return f"{title} is gone" if BOOKS.pop(title, None) else "there is no such book"


@server.tool()
async def count_pages(seconds: float = 30.0) -> str:
    """Count every page by hand, which takes its time."""
    await anyio.sleep(seconds)
    return "1,024 pages"


if __name__ == "__main__":
    server.run("stdio")
