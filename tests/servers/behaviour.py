"""What the tools of the hand-written test servers do. Shared by the stdio and the HTTP one; no MCP library in it."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any

Notify = Callable[[str, dict[str, Any]], None]
Ask = Callable[[str, dict[str, Any]], dict[str, Any]]

NAMES = (
    "echo",
    "wait",
    "die",
    "count",
    "grow",
    "log",
    "progress",
    "seen",
    "broken_blocks",
    "big",
    "ask",
    "fail",
    "pid",
)


class ToolError(Exception):
    """Answered as a JSON-RPC error."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


def definition(name: str) -> dict[str, Any]:
    return {"name": name, "description": f"Does {name}.", "inputSchema": {"type": "object", "properties": {}}}


def text(value: Any) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": str(value)}], "isError": False}


class Tools:
    """The state of one server or session."""

    def __init__(self) -> None:
        self.extra: list[str] = []
        self.calls = 0
        self.messages: list[dict[str, Any]] = []
        self.release = threading.Event()

    def call(self, params: dict[str, Any], notify: Notify, ask: Ask) -> dict[str, Any]:
        """The result of a call. `notify` sends a notification to the client, `ask` a request."""
        name, arguments = params["name"], params.get("arguments") or {}
        if name == "echo":
            return text(arguments.get("text"))
        if name == "wait":  # answers late, cancelled or not
            self.release.wait(arguments.get("seconds", 3_600))
            return text("late")
        if name == "die":
            os._exit(arguments.get("status", 1))
        if name == "count":
            self.calls += 1
            return text(self.calls)
        if name == "grow":
            self.extra.append("grown")
            for _ in range(5):
                notify("notifications/tools/list_changed", {})
            return text("grown")
        if name == "log":
            notify("notifications/message", {"level": arguments.get("level", "error"), "data": arguments["text"]})
            return text("logged")
        if name == "progress":
            token = (params.get("_meta") or {}).get("progressToken")
            for step in range(arguments["steps"]):
                threading.Event().wait(arguments["pause"])
                notify("notifications/progress", {"progressToken": token, "progress": step + 1})
            return text("done")
        if name == "seen":
            return text([message for message in self.messages if message.get("method") == arguments["method"]])
        if name == "broken_blocks":
            good = {"type": "text", "text": "good"}
            return {"content": [good, {"type": "image"}, {"type": "hologram", "x": 1}, "loose"], "isError": False}
        if name == "big":
            return text("x" * arguments["size"])
        if name == "ask":
            answer = ask(arguments["method"], arguments.get("params") or {})
            return text(answer)
        if name == "fail":
            raise ToolError(arguments.get("code", -32_000), arguments.get("text", "it failed"))
        if name == "pid":
            return text(os.getpid())
        raise ToolError(-32_602, f"Unknown tool: {name}")
