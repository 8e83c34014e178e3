"""Starts the hand-written servers."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from conduit_actors.server import Server

_HERE = Path(__file__).resolve().parent


def stdio_server(*flags: str, id: str = "s", **options: Any) -> Server:
    """The configuration of a stdio server; `over_stdio.py` says which flags there are."""
    options.setdefault("shutdown_grace", 0.5)
    return Server(id, command=sys.executable, args=["-S", str(_HERE / "over_stdio.py"), *flags], **options)


@dataclass
class HttpServer:
    """A running HTTP server."""

    process: subprocess.Popen[bytes]
    port: int

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/mcp"

    def server(self, id: str = "h", **options: Any) -> Server:
        """Its configuration for a hub or a connection."""
        return Server(id, url=self.url, **options)

    def admin(self, command: str = "log") -> list[dict[str, Any]]:
        """Do something, and give all requests so far. It blocks: call it in a thread."""
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(f"http://127.0.0.1:{self.port}/admin/{command}", timeout=10) as response:
            return json.load(response)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


@contextmanager
def http_server(*flags: str, program: str = "over_http.py") -> Generator[HttpServer]:
    """Run an HTTP server that prints its port; `over_http.py` says which flags it has."""
    process = subprocess.Popen([sys.executable, str(_HERE / program), *flags], stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        yield HttpServer(process, int(process.stdout.readline()))
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()
