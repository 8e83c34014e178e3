"""Where adapters get tools from: a hub, a client, or the name of one that is open in this process."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Collection, Mapping
from typing import Any, Literal, Protocol, TypeAlias, runtime_checkable

from conduit_actors.errors import ConfigurationError
from conduit_actors.limits import Limits
from conduit_actors.results import ToolResult
from conduit_actors.toolset import ToolSet

Shape: TypeAlias = Literal["llm"] | None
OnProgress: TypeAlias = Callable[[float, float | None, str | None], Any]
Kind: TypeAlias = Literal["hub", "client"]


@runtime_checkable
class Source(Protocol):
    """What `Hub` and `Client` have in common, as far as the adapters are concerned."""

    @property
    def name(self) -> str: ...

    @property
    def limits(self) -> Limits: ...

    async def list_tools(self, principal: str | None = None) -> ToolSet: ...

    def known_tools(self, principal: str | None = None) -> ToolSet: ...

    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        principal: str | None = None,
        assigns: Mapping[str, Any] | None = None,
        taint: Collection[str] = (),
        timeout: float | None = None,
        call_timeout: float | None = None,
        meta: Mapping[str, Any] | None = None,
        on_progress: OnProgress | None = None,
        toolset: ToolSet | None = None,
        shape: Shape = "llm",
        call_id: str | None = None,
    ) -> ToolResult: ...


_lock = threading.Lock()
_open: dict[Kind, weakref.WeakSet[Any]] = {"hub": weakref.WeakSet(), "client": weakref.WeakSet()}


def register(kind: Kind, source: Source) -> None:
    """Make an open source known by its name. It is forgotten when it is closed or collected."""
    with _lock:
        _open[kind].add(source)


def unregister(kind: Kind, source: Source) -> None:
    """Forget a source; one that is not known is no error."""
    with _lock:
        _open[kind].discard(source)


def resolve(source: object) -> Source:
    """The source itself, or the open one with this name; where a hub and a client share a name, the hub.

    Raises:
        ConfigurationError: nothing that is open has the name, or several of one kind do; or it is no source at all.
    """
    if not isinstance(source, str):
        if isinstance(source, Source):
            return source
        raise ConfigurationError(f"expected a hub, a client or a name of one, not {type(source).__name__}")
    with _lock:
        found = {kind: [one for one in known if one.name == source] for kind, known in _open.items()}
    for kind in ("hub", "client"):
        if len(found[kind]) == 1:
            return found[kind][0]
        if found[kind]:
            raise ConfigurationError(f"{len(found[kind])} open {kind}s are named {source!r}; pass the object instead")
    raise ConfigurationError(f"no open hub or client is named {source!r}")
