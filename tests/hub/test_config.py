"""The mcpServers files of desktop clients, and the mistakes in them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from conduit_actors import Hub, Policy, Server, errors
from conduit_actors.config_file import load_servers
from support import KITCHEN

CANARY = "sk-canary-1234567890"


def entry(**fields: Any) -> dict[str, Any]:
    return {"mcpServers": {"files": fields}}


def refused(config: Any) -> str:
    with pytest.raises(errors.ConfigurationError) as caught:
        load_servers(config)
    assert "\n" not in caught.value.message
    assert CANARY not in caught.value.message
    return caught.value.message


def test_claude_desktops_own_form_and_what_other_clients_add() -> None:
    servers = load_servers(
        {
            "globalShortcut": "Ctrl+X",
            "mcpServers": {
                "files": {"command": "npx", "args": ["-y", "server"], "env": {"TOKEN": CANARY, "PORT": 80}},
                "remote": {"type": "http", "url": "https://example.com/mcp", "headers": {"Authorization": CANARY}},
                "windsurf": {"serverUrl": "https://example.com/mcp"},
                "gemini": {"httpUrl": "https://example.com/mcp", "timeout": 30_000, "trust": True},
                "cline": {"command": "x", "autoApprove": ["a"], "alwaysAllow": []},
                "off": {"command": "x", "disabled": True},
                "@scope/name": {"command": "x", "includeTools": ["a*"], "excludeTools": ["ab*"]},
            },
        }
    )
    assert [server.id for server in servers] == ["files", "remote", "windsurf", "gemini", "cline", "@scope_name"]
    assert servers[0].env == {"TOKEN": CANARY, "PORT": "80"}
    assert servers[3].timeout == 30
    wanted = servers[5].tools
    assert callable(wanted)
    assert [wanted(name) for name in ("aa", "ab", "c")] == [True, False, False]
    assert CANARY not in repr(servers)


def test_variables_are_filled_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FILES_TOKEN", "t")
    config = entry(command="${SHELL_X:-sh}", env={"A": "${FILES_TOKEN}", "B": "${env:FILES_TOKEN}"})
    server = load_servers(config)[0]
    assert server.command == "sh"
    assert server.env == {"A": "t", "B": "t"}
    assert "NOT_SET_ANYWHERE" in refused(entry(command="${NOT_SET_ANYWHERE}"))


@pytest.mark.parametrize(
    ("config", "part"),
    [
        ({}, "mcpServers"),
        ([], "mcpServers"),
        (entry(command="x", comand="y"), "unknown key 'comand'"),
        (entry(command="x", url="https://example.com"), "exactly one of"),
        (entry(), "exactly one of"),
        (entry(command=5), "command"),
        (entry(command="x", env={"A": ["b"]}), "env"),
        (entry(type="sse", url="https://example.com"), "SSE"),
        (entry(type="carrier-pigeon", url="https://example.com"), "carrier-pigeon"),
        (entry(url="ftp://example.com"), "http"),
        ({"mcpServers": {"files": CANARY}}, "files"),
    ],
)
def test_a_mistake_is_one_line_that_names_the_server_and_the_cause(config: Any, part: str) -> None:
    message = refused(config)
    assert part in message
    if config and isinstance(config, dict):
        assert "files" in message


def test_a_file_that_is_missing_or_not_json_is_named(tmp_path: Path) -> None:
    assert "missing.json" in refused(str(tmp_path / "missing.json"))
    bad = tmp_path / "bad.json"
    bad.write_text('{"mcpServers": ')
    assert "bad.json: is not JSON" in refused(str(bad))


@pytest.mark.parametrize(
    "options",
    [
        {"id": ""},
        {"id": "a/b"},
        {"id": "a"},
        {"id": "a", "url": "https://x", "command": "y"},
        {"id": "a", "command": "x", "timeout": 0},
        {"id": "a", "command": "x", "args": "one string"},
    ],
)
def test_a_server_that_cannot_work_is_refused_at_once(options: dict[str, Any]) -> None:
    with pytest.raises(errors.ConfigurationError):
        Server(options.pop("id"), **options)


@pytest.mark.anyio
async def test_a_hub_from_a_file(tmp_path: Path) -> None:
    import sys

    file = tmp_path / "mcp.json"
    file.write_text(json.dumps({"mcpServers": {"kitchen": {"command": sys.executable, "args": [str(KITCHEN)]}}}))
    async with Hub.from_config(file, policy=Policy(allow=["*"])) as hub:
        await hub.wait_ready(timeout=30)
        assert (await hub.call_tool("kitchen__add", {"left": 1, "right": 1})).text == "2"
