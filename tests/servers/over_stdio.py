"""A hand-written stdio MCP server that misbehaves on request. Run it: ``python over_stdio.py FLAG ...``.

Its tools are those of `behaviour.py`. Flags:

    hang-initialize       never answers the handshake
    exit-after-handshake  ends right after it
    strict                ends when the first message is not initialize
    garbage               writes what is not JSON-RPC, all the time and nothing else
    banner                prints lines on stdout before and between its messages
    protocol=VERSION      the revision that it negotiates; default 2025-11-25
    three-pages           lists six tools on three pages
    endless-pages         never stops listing new tools
    repeat-cursor         gives the same page and cursor for ever
    duplicates            lists a name twice, with different definitions
    bad-tools             lists bad tools among good ones
    null-list             answers tools/list with a null
    cp1252                answers echo with a byte that is not UTF-8
    ignore-eof            does not end when its stdin is closed
    ignore-sigterm        nor at SIGTERM
    deaf                  stops reading after the tool list was sent
    slow-start=SECONDS    waits before it answers anything
    stderr=TEXT           writes a line there first
    grandchild=FILE       starts a child that holds its pipes, and writes the child's pid to FILE
    spawns=FILE           adds a line to FILE at each start
    say-pings             writes a line to stderr at each ping
    environ=NAME          writes that environment variable to stderr
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

from behaviour import NAMES, ToolError, Tools, definition

FLAGS = dict(flag.partition("=")[::2] for flag in sys.argv[1:])
_lock = threading.Lock()
_answers: dict[Any, Any] = {}
_answered = threading.Condition()
_tools = Tools()


def send(message: dict[str, Any]) -> None:
    data = json.dumps({"jsonrpc": "2.0", **message}).encode()
    if "cp1252" in FLAGS:
        data = data.replace(b"@", b"\x92")
    with _lock:
        if "banner" in FLAGS:
            sys.stdout.buffer.write(b"INFO: about to answer\n\n[1, 2]\n{}\n")
        sys.stdout.buffer.write(data + b"\n")
        sys.stdout.buffer.flush()


def notify(method: str, params: dict[str, Any]) -> None:
    send({"method": method, "params": params})


def ask(method: str, params: dict[str, Any]) -> dict[str, Any]:
    request_id = f"server-{time.monotonic_ns()}"
    send({"id": request_id, "method": method, "params": params})
    with _answered:
        _answered.wait_for(lambda: request_id in _answers)
        return _answers.pop(request_id)


def listing(cursor: str | None) -> Any:
    if "null-list" in FLAGS:
        return {"tools": None}
    if "three-pages" in FLAGS:
        page = int(cursor or 0)
        tools = [definition(f"tool{2 * page}"), definition(f"tool{2 * page + 1}")]
        return {"tools": tools} | ({"nextCursor": str(page + 1)} if page < 2 else {})
    if "endless-pages" in FLAGS:
        page = int(cursor or 0)
        return {"tools": [definition(f"tool{page}")], "nextCursor": str(page + 1)}
    if "repeat-cursor" in FLAGS:
        return {"tools": [definition("echo"), definition("pid")], "nextCursor": "again"}
    tools = [definition(name) for name in (*NAMES, *_tools.extra)]
    if "duplicates" in FLAGS:
        tools.append({**definition("echo"), "description": "Another one."})
    if "bad-tools" in FLAGS:
        tools[1:1] = [
            {"name": "no_object", "inputSchema": {"type": "string"}},
            {"name": 7, "inputSchema": {"type": "object"}},
            {"name": "list_schema", "inputSchema": []},
            {"name": "no_schema"},
            {"name": "bad_optional", "inputSchema": {"type": "object"}, "annotations": 5, "title": ["x"]},
            {
                "name": "required_inside",
                "inputSchema": {"type": "object", "properties": {"coin": {"type": "string"}, "required": ["coin"]}},
            },
            {"name": "null_kept", "inputSchema": {"type": "object", "properties": {"a": {"enum": [None, 1]}}}},
            "not even an object",
        ]
    return {"tools": tools}


def handle(message: dict[str, Any]) -> None:
    method, params = message["method"], message.get("params") or {}
    try:
        if method == "initialize":
            if "hang-initialize" in FLAGS:
                return
            result: Any = {
                "protocolVersion": FLAGS.get("protocol", "2025-11-25"),
                "capabilities": {"tools": {"listChanged": True}, "logging": {}},
                "serverInfo": {"name": "hand-written", "version": "1"},
                "instructions": "Be kind.",
            }
        elif method == "tools/list":
            result = listing(params.get("cursor"))
        elif method == "tools/call":
            result = _tools.call(params, notify, ask)
        elif method == "ping":
            if "say-pings" in FLAGS:
                print("pinged", file=sys.stderr, flush=True)
            result = {}
        else:
            raise ToolError(-32_601, f"Method not found: {method}")
    except ToolError as error:
        send({"id": message["id"], "error": {"code": error.code, "message": str(error)}})
        return
    send({"id": message["id"], "result": result})
    if method == "initialize" and "exit-after-handshake" in FLAGS:
        os._exit(4)


def main() -> None:
    prepare()
    if "garbage" in FLAGS:
        while True:
            sys.stdout.buffer.write(b"%% \xff\xfe this is not JSON-RPC\n" * 100)
            sys.stdout.buffer.flush()
    for line in sys.stdin:
        message = json.loads(line)
        if "strict" in FLAGS and not _tools.messages and message.get("method") != "initialize":
            os._exit(5)
        _tools.messages.append(message)
        if "method" not in message:
            with _answered:
                _answers[message["id"]] = message
                _answered.notify_all()
        elif "id" in message:
            if message["method"] == "tools/call":
                threading.Thread(target=handle, args=(message,), daemon=True).start()
            else:
                handle(message)
            if message["method"] == "tools/list" and "deaf" in FLAGS:
                time.sleep(3_600)
    while "ignore-eof" in FLAGS:
        time.sleep(3_600)
    os._exit(0)


def prepare() -> None:
    if "ignore-sigterm" in FLAGS:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if "spawns" in FLAGS:
        with Path(FLAGS["spawns"]).open("a") as file:
            file.write(f"{os.getpid()}\n")
    if "stderr" in FLAGS:
        sys.stderr.write(FLAGS["stderr"] + "\n")
    if "environ" in FLAGS:
        sys.stderr.write(f"{FLAGS['environ']} is {os.environ.get(FLAGS['environ'])}\n")
    sys.stderr.flush()
    if "grandchild" in FLAGS:
        code = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(3600)"
        child = subprocess.Popen([sys.executable, "-I", "-S", "-c", code])
        Path(FLAGS["grandchild"]).write_text(str(child.pid))
    if "slow-start" in FLAGS:
        time.sleep(float(FLAGS["slow-start"]))


main()
