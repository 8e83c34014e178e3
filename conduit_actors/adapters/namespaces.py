"""The Responses API's namespaces: one per server, and the calls that come back from them.

Source: OpenAI's published specification, 2026-08-21: a name is at most 64 characters, a call carries its ``namespace``.
A deferred function that is in none may carry its own name there (openai 3.57.0).
"""

from __future__ import annotations

from typing import Any

from conduit_actors.names import MAX_NAME_CHARS, sanitise, with_hash
from conduit_actors.toolset import ToolSet


def names_of(toolset: ToolSet) -> dict[str, str]:
    """Server id -> its namespace. Names that are too long, or that two servers would have, end in a hash."""
    plain = {server_id: sanitise(server_id) for server_id in toolset.server_ids}
    known = list(plain.values())
    return {
        server_id: name if len(name) <= MAX_NAME_CHARS and known.count(name) == 1 else with_hash(name, server_id, "")
        for server_id, name in plain.items()
    }


def grouped(toolset: ToolSet, functions: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The function tools as one namespace per server, in order of first appearance; they keep their exposed names."""
    names = names_of(toolset)
    members: dict[str, list[dict[str, Any]]] = {}
    for function in functions:
        tool = toolset.get(function["name"])
        assert tool is not None
        members.setdefault(tool.server_id, []).append(function)
    return [
        {
            "type": "namespace",
            "name": names[server_id],
            "description": toolset.server_info.get(server_id) or f"Tools of the server {server_id}.",
            "tools": tools,
        }
        for server_id, tools in members.items()
    ]


def exposed(toolset: ToolSet, name: object, namespace: object) -> object:
    """The exposed name that a call means, or one that no tool has if its namespace is not the tool's."""
    if not isinstance(name, str) or not isinstance(namespace, str) or not namespace or namespace == name:
        return name
    server_ids = [server_id for server_id, known in names_of(toolset).items() if known == namespace]
    tool = toolset.get(name)
    if server_ids and tool is not None and tool.server_id == server_ids[0]:
        return name
    short = toolset.exposed_name(server_ids[0], name) if server_ids else None
    return short or f"{namespace}.{name}"
