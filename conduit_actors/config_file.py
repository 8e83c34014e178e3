"""The ``mcpServers`` JSON that desktop clients use, read into `Server` objects.

Known to be in use, and taken here unchanged (looked up 2026-12): Claude Desktop and Claude Code (``command``, ``args``,
``env``, ``type``, ``url``, ``headers``, ``${VAR}`` and ``${VAR:-default}``), Cursor (``${env:VAR}``), VS Code
(top-level ``servers``), Windsurf (``serverUrl``), Cline (``disabled``, ``autoApprove``, ``alwaysAllow``), Gemini CLI
(``httpUrl``, ``timeout`` in milliseconds, ``trust``, ``includeTools``, ``excludeTools``). What a file grants of its own
accord (``autoApprove``, ``trust``) is not a grant here: the host's policy decides.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from fnmatch import fnmatchcase
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any, cast

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, ValidationError

from conduit_actors.errors import ConfigurationError
from conduit_actors.server import Server

_VARIABLE = re.compile(r"\$\{(?:env:)?([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
_HTTP_TYPES = frozenset({"http", "streamable-http", "streamableHttp", "streamable_http"})


class _Entry(BaseModel):
    """One server as the file has it. An unknown key is refused: it is most likely a typing error."""

    model_config = ConfigDict(extra="forbid", strict=True)

    command: str | None = None
    args: list[str] = Field(default_factory=list[str])
    env: dict[str, str | int | float | bool] = Field(default_factory=dict[str, str | int | float | bool])
    cwd: str | None = None
    url: str | None = Field(default=None, validation_alias=AliasChoices("url", "serverUrl", "httpUrl"))
    headers: dict[str, str] = Field(default_factory=dict[str, str])
    type: str | None = Field(default=None, validation_alias=AliasChoices("type", "transport"))
    timeout: float | None = None
    disabled: bool = False
    description: str = ""
    include_tools: list[str] | None = Field(default=None, validation_alias="includeTools")
    exclude_tools: list[str] = Field(default_factory=list[str], validation_alias="excludeTools")
    # Known, and without effect here.
    name: Any = None
    trust: Any = None
    auto_approve: Any = Field(default=None, validation_alias="autoApprove")
    always_allow: Any = Field(default=None, validation_alias="alwaysAllow")
    gallery: Any = None
    version: Any = None
    note: Any = Field(default=None, validation_alias=AliasChoices("_comment", "comment", "note"))


def load_servers(source: str | PathLike[str] | Mapping[str, Any]) -> list[Server]:
    """Read the servers of a config file, or of its parsed content.

    Raises:
        ConfigurationError: one line that names the file or the server, and the cause. It shows no value of the file.
    """
    where = "the configuration"
    content: object = source
    if not isinstance(source, Mapping):
        if not isinstance(source, (str, PathLike)):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(f"{where}: expected a path or a mapping with 'mcpServers'")
        where = os.fspath(source)
        content = _read_json(Path(source), where)
    if not isinstance(content, Mapping):
        raise ConfigurationError(f"{where}: expected a JSON object with 'mcpServers'")
    entries: Any = content.get("mcpServers", content.get("servers"))  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    if not isinstance(entries, Mapping):
        raise ConfigurationError(f"{where}: expected a JSON object with 'mcpServers'")
    servers = [_server(str(name), entry, where) for name, entry in entries.items()]  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    return [server for server in servers if server is not None]


def _read_json(path: Path, where: str) -> object:
    try:
        return json.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise ConfigurationError(f"{where}: cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"{where}: is not UTF-8 text") from error
    except json.JSONDecodeError as error:
        raise ConfigurationError(
            f"{where}: is not JSON: {error.msg} (line {error.lineno}, column {error.colno})"
        ) from error
    except RecursionError as error:
        raise ConfigurationError(f"{where}: is nested too deeply") from error


def _server(name: str, entry: object, where: str) -> Server | None:
    label = f"{where}: server {name!r}"
    if not isinstance(entry, Mapping):
        raise ConfigurationError(f"{label}: expected a JSON object")
    try:
        parsed = _Entry.model_validate(entry)
    except ValidationError as error:
        raise ConfigurationError(f"{label}: {_first_fault(error)}") from None
    if parsed.disabled:
        return None
    if parsed.type == "sse":
        raise ConfigurationError(f"{label}: the SSE transport is not supported; use the server's Streamable HTTP URL")
    if parsed.type is not None and parsed.type != "stdio" and parsed.type not in _HTTP_TYPES:
        raise ConfigurationError(f"{label}: unknown type {parsed.type[:40]!r}")
    expand = partial(_expand, label=label)
    options: dict[str, Any] = {"description": parsed.description}
    if parsed.url is not None:
        options["url"] = expand(parsed.url)
        options["headers"] = {key: expand(value) for key, value in parsed.headers.items()} or None
    if parsed.command is not None:
        options["command"] = expand(parsed.command)
        options["args"] = tuple(expand(arg) for arg in parsed.args)
        options["env"] = {key: expand(_plain(value)) for key, value in parsed.env.items()} or None
        options["cwd"] = None if parsed.cwd is None else expand(parsed.cwd)
    if parsed.timeout is not None:
        # Milliseconds where clients have this key; a small number can only have been meant as seconds.
        options["timeout"] = parsed.timeout / 1_000 if parsed.timeout >= 1_000 else parsed.timeout
    if parsed.include_tools is not None or parsed.exclude_tools:
        options["tools"] = partial(_included, parsed.include_tools, parsed.exclude_tools)
    try:
        # A slash separates server and tool in policies, so an npm-like name gives its slash up.
        return Server(name.strip().replace("/", "_"), **options)
    except ConfigurationError as error:
        raise ConfigurationError(f"{where}: {error.message}") from error


def _plain(value: str | float | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _included(include: list[str] | None, exclude: list[str], tool: str) -> bool:
    if any(fnmatchcase(tool, pattern) for pattern in exclude):
        return False
    return include is None or any(fnmatchcase(tool, pattern) for pattern in include)


def _expand(text: str, *, label: str) -> str:
    def value(match: re.Match[str]) -> str:
        name = match[1]
        found = os.environ.get(name, cast("str | None", match[2]))
        if found is None:
            raise ConfigurationError(f"{label}: the environment variable {name} is not set")
        return found

    return _VARIABLE.sub(value, text)


def _first_fault(error: ValidationError) -> str:
    # Pydantic's own text would repeat the offending value, which may be a secret.
    fault = error.errors(include_url=False, include_input=False)[0]
    key = ".".join(str(part) for part in fault["loc"])
    if fault["type"] == "extra_forbidden":
        return f"unknown key {key!r}"
    return f"{key}: {fault['msg']}" if key else fault["msg"]
