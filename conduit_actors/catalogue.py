"""The tool catalogue: from the servers' own lists to the `ToolSet` that a model is offered."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Literal

from conduit_actors.names import assign
from conduit_actors.server import Server
from conduit_actors.toolset import ExcludedTool, ExposedTool, ToolSet
from conduit_telemetry import notice

Collisions = Literal["rename", "exclude"]


@dataclass(frozen=True, slots=True)
class ServerTools:
    """What one server has, as last listed.

    Attributes:
        tools: the tool definitions in wire form, in the server's order.
        quarantined: names of tools that are not valid MCP, and why.
        available: False while the server is down; its tools then keep their names but are not offered.
    """

    server: Server
    tools: Sequence[Mapping[str, Any]] = ()
    quarantined: Sequence[tuple[str, str]] = ()
    available: bool = True


def build_toolset(
    servers: Sequence[ServerTools],
    *,
    namespaced: bool = True,
    collisions: Collisions = "rename",
    offered: Callable[[str, str], str | None] = lambda server_id, tool: None,
) -> ToolSet:
    """Name, filter and order the tools of all servers.

    Names are given over every tool that is known, also those of a server that is down now, so that a server's coming
    and going renames nothing of its neighbours.

    Args:
        servers: in the order in which their tools are offered.
        offered: says why the policy keeps a (server id, raw name) from being offered; None: it does not.
    """
    known = [(entry, tool) for entry in servers for tool in entry.tools if _wanted(entry.server, tool["name"])]
    names = assign(
        [(entry.server.id, tool["name"]) for entry, tool in known],
        namespaced=namespaced,
        exclude_collisions=collisions == "exclude",
    )
    tools: list[ExposedTool] = []
    excluded: list[ExcludedTool] = []
    for (entry, tool), name in zip(known, names, strict=True):
        server_id, raw = entry.server.id, tool["name"]
        if not entry.available:
            continue
        if name is None:
            reason = "its name collides with another tool's"
            excluded.append(ExcludedTool(server_id, raw, reason))
            notice("name_collision", server_id=server_id, tool=raw, reason=reason)
        elif (denied := offered(server_id, raw)) is not None:
            excluded.append(ExcludedTool(server_id, raw, denied, denied=name))
        else:
            tools.append(_expose(name, entry.server, tool))
    for entry in servers:
        excluded.extend(ExcludedTool(entry.server.id, name, reason) for name, reason in entry.quarantined)
    info = {entry.server.id: entry.server.description for entry in servers}
    return ToolSet(tools, excluded=excluded, namespaced=namespaced, server_info=info)


def _wanted(server: Server, tool: str) -> bool:
    if server.tools is None:
        return True
    if callable(server.tools):
        return bool(server.tools(tool))
    return any(fnmatchcase(tool, pattern) for pattern in server.tools)


def _expose(name: str, server: Server, tool: Mapping[str, Any]) -> ExposedTool:
    return ExposedTool(
        name=name,
        server_id=server.id,
        tool=tool["name"],
        title=tool.get("title"),
        description=tool.get("description"),
        input_schema=tool.get("inputSchema") or {"type": "object"},
        output_schema=tool.get("outputSchema"),
        annotations=tool.get("annotations") or {},
        meta=tool.get("_meta"),
    )
