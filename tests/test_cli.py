"""The conduit-actors command, as a person runs it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Generator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from support import KITCHEN

pytestmark = pytest.mark.timeout(150)
COMMAND = [str(Path(sys.executable).parent / "conduit-actors")]


def run(*args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*COMMAND, *args], capture_output=True, text=True, timeout=110, check=False)


def config(folder: Path, **servers: Any) -> str:
    file = folder / "mcp.json"
    file.write_text(json.dumps({"mcpServers": servers}))
    return str(file)


KITCHEN_ENTRY = {"command": sys.executable, "args": [str(KITCHEN)]}


def test_the_demo_does_what_it_says_and_is_sober_when_piped() -> None:
    done = run("demo")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Every step did what it says." in done.stdout
    assert "\x1b[" not in done.stdout
    for title in ("Anthropic Messages", "OpenAI Chat Completions", "OpenAI Responses", "Gemini generateContent"):
        assert title in done.stdout
    for outcome in ("denied", "approved", "unknown_tool", "timeout", "outcome_unknown"):
        assert outcome in done.stdout
    assert "execute_tool library__find_book" in done.stdout
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("provider", "key"),
    [
        ("anthropic", "input_schema"),
        ("openai", "parameters"),
        ("openai-chat", "function"),
        ("gemini", "parametersJsonSchema"),
        ("bedrock", "toolSpec"),
    ],
)
def test_tools_prints_definitions_as_json(tmp_path: Path, provider: str, key: str) -> None:
    done = run("tools", "--config", config(tmp_path, kitchen=KITCHEN_ENTRY), "--provider", provider)
    assert done.returncode == 0, done.stderr
    definitions = json.loads(done.stdout)
    assert len(definitions) == 12
    assert all(key in definition for definition in definitions)


def test_call_runs_one_governed_call(tmp_path: Path) -> None:
    file = config(tmp_path, kitchen=KITCHEN_ENTRY)
    done = run("call", "--config", file, "kitchen__add", '{"left": 2, "right": 3}')
    assert (done.returncode, done.stdout) == (0, "5\n"), done.stderr
    failed = run("call", "--config", file, "kitchen__fail", "{}")
    assert failed.returncode == 1
    assert failed.stdout == "it broke\n"
    denied = run("call", "--config", file, "kitchen__add", '{"left": 2, "right": 3}', "--deny", "*/add")
    assert denied.returncode == 1
    assert "denied" in denied.stderr


class NotFound(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        self.send_response(404)
        self.end_headers()

    do_GET = do_POST

    def log_message(self, format: str, *args: Any) -> None:
        """Silent."""


@pytest.fixture
def not_found_url() -> Generator[str, None, None]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), NotFound)
    thread = Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/mcp"
    server.shutdown()
    server.server_close()
    thread.join()


def one_line(done: subprocess.CompletedProcess[str], *parts: str) -> None:
    assert done.returncode != 0
    assert "Traceback" not in done.stderr + done.stdout
    lines = done.stderr.strip().splitlines()
    assert len(lines) == 1, done.stderr
    for part in parts:
        assert part in lines[0]


def test_a_missing_command(tmp_path: Path) -> None:
    file = config(tmp_path, ghost={"command": "no-such-command-here"})
    one_line(run("tools", "--config", file, "--provider", "gemini"), "ghost", "no-such-command-here")


def test_a_server_that_prints_garbage_and_ends(tmp_path: Path) -> None:
    file = config(tmp_path, noisy={"command": sys.executable, "args": ["-c", "print('garbage ' * 100)"]})
    one_line(run("tools", "--config", file, "--provider", "gemini"), "noisy", "exit status 0")


def test_a_server_that_prints_garbage_for_ever(tmp_path: Path) -> None:
    code = "import time\nwhile True: print('garbage', flush=True); time.sleep(0.01)"
    file = config(tmp_path, noisy={"command": sys.executable, "args": ["-c", code]})
    one_line(run("tools", "--config", file, "--provider", "gemini", "--wait", "2"), "noisy")


def test_a_url_that_answers_404(tmp_path: Path, not_found_url: str) -> None:
    file = config(tmp_path, web={"url": not_found_url})
    one_line(run("tools", "--config", file, "--provider", "gemini"), "web", "404")


def test_a_file_that_is_not_json_or_has_an_unknown_key(tmp_path: Path) -> None:
    bad = tmp_path / "bad.json"
    bad.write_text("{")
    one_line(run("tools", "--config", str(bad), "--provider", "gemini"), "bad.json", "not JSON")
    file = config(tmp_path, typo={"comand": "x"})
    one_line(run("call", "--config", file, "typo__x"), "typo", "comand")


def test_arguments_that_are_not_an_object(tmp_path: Path) -> None:
    file = config(tmp_path, kitchen=KITCHEN_ENTRY)
    one_line(run("call", "--config", file, "kitchen__echo", "[1]"), "JSON object")
    one_line(run("call", "--config", file, "kitchen__echo", "{"), "not JSON")


def test_one_bad_server_does_not_hide_the_others(tmp_path: Path) -> None:
    file = config(tmp_path, ghost={"command": "no-such-command-here"}, kitchen=KITCHEN_ENTRY)
    done = run("tools", "--config", file, "--provider", "anthropic")
    assert len(json.loads(done.stdout)) == 12
    assert "ghost" in done.stderr
    assert done.returncode == 1
