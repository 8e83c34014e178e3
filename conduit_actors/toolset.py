"""`ToolSet`: the immutable, ordered list of tools that a model is offered, and the map back to servers.

A tool set is a snapshot. It keeps its order and its names for ever, so that a provider's prompt cache holds and a
call is resolved against what the model really saw.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, overload


@dataclass(frozen=True, slots=True, kw_only=True)
class ExposedTool:
    """One tool under the name that the model sees.

    Attributes:
        name: the exposed name, ``^[A-Za-z_][A-Za-z0-9_-]{0,63}$``.
        server_id: the server it lives on.
        tool: the server's own, raw name. Policies match ``server_id/tool``.
        description: the server's text, as it came; adapters clean and cut it.
        input_schema: the server's JSON Schema for the arguments. Never mutated.
        output_schema: the server's JSON Schema for ``structuredContent``.
        annotations: what the server says of the tool. A hint, never a grant.
    """

    name: str
    server_id: str
    tool: str
    title: str | None = None
    description: str | None = None
    input_schema: Mapping[str, Any] = field(default_factory=lambda: {"type": "object"}, repr=False)
    output_schema: Mapping[str, Any] | None = field(default=None, repr=False)
    annotations: Mapping[str, Any] = field(default_factory=dict[str, Any], repr=False)
    meta: Mapping[str, Any] | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class ExcludedTool:
    """A tool that a server has and the model is not offered, and why (collision, quarantine, policy, filter, ...).

    Attributes:
        denied: the exposed name that it would have, if the policy is the reason.
    """

    server_id: str
    tool: str
    reason: str
    denied: str | None = None


class ToolSet(Sequence[ExposedTool]):
    """An immutable, ordered list of `ExposedTool`, found by exposed name or by server and raw name.

    Args:
        tools: in the order in which they are offered. Their names must differ.
        excluded: tools left out, with reasons.
        namespaced: False for a standalone client, whose tools keep their own names.
        server_info: per server id, what a provider may group by (e.g. a description for a namespace).

    Raises:
        ValueError: two tools have the same exposed name.
    """

    __slots__ = ("__weakref__", "_by_name", "_by_origin", "_tools", "excluded", "namespaced", "server_info")

    def __init__(
        self,
        tools: Iterable[ExposedTool] = (),
        *,
        excluded: Iterable[ExcludedTool] = (),
        namespaced: bool = True,
        server_info: Mapping[str, str] | None = None,
    ) -> None:
        self._tools = tuple(tools)
        self._by_name = {tool.name: tool for tool in self._tools}
        if len(self._by_name) != len(self._tools):
            raise ValueError("two tools of a tool set have the same name")
        self._by_origin = {(tool.server_id, tool.tool): tool for tool in self._tools}
        self.excluded = tuple(excluded)
        self.namespaced = namespaced
        self.server_info: Mapping[str, str] = dict(server_info or {})

    @overload
    def __getitem__(self, index: int) -> ExposedTool: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[ExposedTool, ...]: ...
    def __getitem__(self, index: int | slice) -> ExposedTool | tuple[ExposedTool, ...]:
        return self._tools[index]

    def __len__(self) -> int:
        return len(self._tools)

    def __iter__(self) -> Iterator[ExposedTool]:
        return iter(self._tools)

    def __contains__(self, item: object) -> bool:
        return item in self._by_name if isinstance(item, str) else item in self._tools

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ToolSet) and self._tools == other._tools

    def __hash__(self) -> int:
        return hash(self.names)

    def __repr__(self) -> str:
        return f"<ToolSet of {len(self)} tools>"

    @property
    def names(self) -> tuple[str, ...]:
        """The exposed names, in order."""
        return tuple(self._by_name)

    @property
    def server_ids(self) -> tuple[str, ...]:
        """The servers that have a tool here, in order of first appearance."""
        return tuple(dict.fromkeys(tool.server_id for tool in self._tools))

    def get(self, name: str) -> ExposedTool | None:
        """The tool with this exposed name, or None."""
        return self._by_name.get(name)

    def denied(self, name: str) -> ExcludedTool | None:
        """The tool that would have this exposed name, if the policy is why it is not offered."""
        return next((one for one in self.excluded if one.denied == name), None)

    def exposed_name(self, server_id: str, tool: str) -> str | None:
        """The exposed name of a server's tool, given by its raw name, or None when it is not offered."""
        found = self._by_origin.get((server_id, tool))
        return None if found is None else found.name
