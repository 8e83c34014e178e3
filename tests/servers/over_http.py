"""A hand-written Streamable HTTP MCP server that misbehaves on request. Run it: ``python over_http.py FLAG ...``.

It prints its port. Its tools are those of `behaviour.py`, one state for each session. Flags:

    port=N            instead of a free one
    token=TEXT        the bearer token that it wants; ``/admin/token?TEXT`` changes it
    sse               answers requests with event streams, which begin before the tool runs
    drop-get=SECONDS  closes each GET stream after that time
    hang-delete       never answers DELETE
    hang-notices      never answers notifications but the handshake's
    bad-session=N     answers requests of an unknown session with that status, instead of 404
    redirect=URL      redirects everything there
    reset             closes each connection before it answers

Under ``/admin/`` it tells and does: ``log`` (all requests so far), ``forget`` (all sessions), ``die``.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

from behaviour import NAMES, ToolError, Tools, definition

FLAGS = dict(flag.partition("=")[::2] for flag in sys.argv[1:])
SESSIONS: dict[str, Tools] = {}
LOG: list[dict[str, Any]] = []
_stop = threading.Event()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:
        return

    def do_GET(self) -> None:
        if self.path.startswith("/admin/"):
            self._admin(self.path.removeprefix("/admin/"))
            return
        if not self._admit(None):
            return
        self._start_stream()
        _stop.wait(float(FLAGS.get("drop-get", 3_600)))
        self.close_connection = True

    def do_DELETE(self) -> None:
        if self._admit(None):
            if "hang-delete" in FLAGS:
                _stop.wait()
            SESSIONS.pop(self.headers.get("mcp-session-id", ""), None)
            self._reply(200, {})

    def do_POST(self) -> None:
        message = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if not self._admit(message):
            return
        method = message.get("method")
        if "id" not in message or method is None:
            if "hang-notices" in FLAGS and method != "notifications/initialized":
                _stop.wait()
            self._reply(202, None)
            return
        session = self.headers.get("mcp-session-id")
        headers: dict[str, str] = {}
        streams = "sse" in FLAGS and method != "initialize"
        if streams:
            self._start_stream()
        try:
            if method == "initialize":
                session = headers["mcp-session-id"] = uuid.uuid4().hex
                SESSIONS[session] = Tools()
                result: Any = {
                    "protocolVersion": "2025-11-25",
                    "capabilities": {"tools": {"listChanged": True}},
                    "serverInfo": {"name": "hand-written", "version": "1"},
                }
            elif session is None:
                raise ToolError(-32_601, f"Method not found: {method}")
            else:
                result = self._answer(SESSIONS[session], method, message.get("params") or {})
            answer = {"jsonrpc": "2.0", "id": message["id"], "result": result}
        except ToolError as error:
            answer = {"jsonrpc": "2.0", "id": message["id"], "error": {"code": error.code, "message": str(error)}}
        if streams:
            self._event(answer)
            self.close_connection = True
        else:
            self._reply(200, answer, headers)

    def _answer(self, tools: Tools, method: str, params: dict[str, Any]) -> Any:
        if method == "tools/list":
            return {"tools": [definition(name) for name in NAMES]}
        if method == "tools/call":
            return tools.call(params, lambda *_: None, lambda *_: {})
        if method == "ping":
            return {}
        raise ToolError(-32_601, f"Method not found: {method}")

    def _admit(self, message: dict[str, Any] | None) -> bool:
        session = self.headers.get("mcp-session-id")
        entry = {"verb": self.command, "method": (message or {}).get("method"), "session": session}
        LOG.append({**entry, "headers": dict(self.headers.items())})
        if "reset" in FLAGS:
            self.connection.close()
            self.close_connection = True
            return False
        if "redirect" in FLAGS:
            self._reply(307, None, {"location": FLAGS["redirect"]})
            return False
        if "token" in FLAGS and self.headers.get("authorization") != f"Bearer {FLAGS['token']}":
            self._reply(401, {"error": "unauthorised"})
            return False
        if session is not None and session not in SESSIONS:
            status = int(FLAGS.get("bad-session", 404))
            error = {"code": -32_000, "message": "Bad Request: no valid session id"}
            self._reply(status, {"jsonrpc": "2.0", "id": None, "error": error})
            return False
        return True

    def _admin(self, command: str) -> None:
        if command == "die":
            os._exit(1)
        if command == "forget":
            SESSIONS.clear()
        if command.startswith("token?"):
            FLAGS["token"] = command.removeprefix("token?")
        self._reply(200, LOG)

    def _start_stream(self) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        self.wfile.flush()

    def _event(self, message: dict[str, Any]) -> None:
        self.wfile.write(b"event: message\ndata: " + json.dumps(message).encode() + b"\n\n")
        self.wfile.flush()

    def _reply(self, status: int, body: Any, headers: dict[str, str] | None = None) -> None:
        data = b"" if body is None else json.dumps(body).encode()
        self.send_response(status)
        if body is not None:
            self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)


def main() -> None:
    server = ThreadingHTTPServer(("127.0.0.1", int(FLAGS.get("port", 0))), Handler)
    server.daemon_threads = True
    print(server.server_address[1], flush=True)
    server.serve_forever()


main()
