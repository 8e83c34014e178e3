"""`SyncHub`: a hub for plain programs, in an event loop of its own in a background thread."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import ExitStack
from os import PathLike
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from anyio.from_thread import BlockingPortal, start_blocking_portal

from conduit_actors.errors import ConfigurationError
from conduit_actors.hub import Hub
from conduit_actors.pinning import PinFinding
from conduit_actors.policy import PolicySource
from conduit_actors.results import ToolResult
from conduit_actors.server import Server
from conduit_actors.status import HubStatus
from conduit_actors.toolset import ToolSet

if TYPE_CHECKING:
    from conduit_actors.adapters.facade import Listing, ToolCallResults
    from conduit_actors.conversation import Conversation


class SyncHub:
    """A `Hub` whose methods block. Usable from any number of threads, also from one that runs an event loop (which it
    then blocks).

        with SyncHub("agents", servers=[...], policy=...) as hub:
            listing = hub.tools("anthropic")
            results = hub.execute_tool_calls("anthropic", response, toolset=listing.toolset)

    Args:
        backend: "asyncio" or "trio", for the background loop. The other arguments are those of `Hub`.
    """

    def __init__(self, name: str = "hub", *, backend: str = "asyncio", **options: Any) -> None:
        self._hub = Hub(name, **options)
        self._backend = backend
        self._stack = ExitStack()
        self._portal: BlockingPortal | None = None

    @classmethod
    def from_config(cls, source: str | PathLike[str] | Mapping[str, Any], **options: Any) -> Self:
        """See `Hub.from_config`.

        Raises:
            ConfigurationError: the file cannot be used.
        """
        from conduit_actors.config_file import load_servers

        return cls(options.pop("name", "hub"), servers=load_servers(source), **options)

    def __enter__(self) -> Self:
        if self._portal is not None:
            raise ConfigurationError(f"{self._hub.name!r} is open already")
        self._portal = self._stack.enter_context(start_blocking_portal(self._backend))
        try:
            self._portal.call(self._hub.__aenter__)
        except BaseException:
            self._portal = None
            self._stack.close()
            raise
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stop all calls, close all connections, end the background thread. A second time does nothing."""
        portal, self._portal = self._portal, None
        if portal is not None:
            try:
                portal.call(self._hub.close)
            finally:
                self._stack.close()

    def _run(self, function: Callable[..., Any], *args: Any, **options: Any) -> Any:
        async def call() -> Any:
            return await function(*args, **options)

        return self._run_plain(call)

    def _run_plain(self, function: Callable[..., Any], *args: Any) -> Any:
        if self._portal is None:
            raise ConfigurationError(f"{self._hub.name!r} is not open: use `with`")
        return self._portal.call(function, *args)

    @property
    def hub(self) -> Hub:
        """The hub itself; its methods are for the background loop."""
        return self._hub

    def status(self) -> HubStatus:
        """See `Hub.status`."""
        return self._hub.status()

    def wait_ready(self, timeout: float | None = None) -> HubStatus:
        """See `Hub.wait_ready`."""
        return self._run(self._hub.wait_ready, timeout)

    def list_tools(self, principal: str | None = None) -> ToolSet:
        """See `Hub.list_tools`."""
        return self._run(self._hub.list_tools, principal)

    def known_tools(self, principal: str | None = None) -> ToolSet:
        """See `Hub.known_tools`."""
        return self._run_plain(self._hub.known_tools, principal)

    def approve_tool(self, finding: PinFinding) -> None:
        """See `Hub.approve_tool`."""
        self._run(self._hub.approve_tool, finding)

    def set_policy(self, policy: PolicySource | None) -> None:
        """See `Hub.set_policy`."""
        self._run_plain(self._hub.set_policy, policy)

    def call_tool(self, name: str, arguments: Mapping[str, Any] | None = None, **options: Any) -> ToolResult:
        """See `Hub.call_tool`."""
        return self._run(self._hub.call_tool, name, arguments, **options)

    def add_server(self, server: Server) -> None:
        """See `Hub.add_server`."""
        self._run(self._hub.add_server, server)

    def remove_server(self, server_id: str) -> None:
        """See `Hub.remove_server`."""
        self._run(self._hub.remove_server, server_id)

    def restart_server(self, server_id: str) -> None:
        """See `Hub.restart_server`."""
        self._run(self._hub.restart_server, server_id)

    def update_credentials(self, server_id: str, **credentials: Any) -> None:
        """See `Hub.update_credentials`."""
        self._run(self._hub.update_credentials, server_id, **credentials)

    def tools(self, provider: Any, **options: Any) -> Listing:
        """See `adapters.tools`."""
        from conduit_actors.adapters import tools

        return self._run(tools, self._hub, provider, **options)

    def execute_tool_calls(self, provider: Any, response: object, **options: Any) -> ToolCallResults:
        """See `adapters.execute_tool_calls`."""
        from conduit_actors.adapters import execute_tool_calls

        return self._run(execute_tool_calls, self._hub, provider, response, **options)

    def conversation(self, provider: Any, **options: Any) -> SyncConversation:
        """See `Hub.conversation`; the methods of this one block as well."""
        return SyncConversation(self._run(self._hub.conversation, provider, **options), self._run)


class SyncConversation:
    """A `Conversation` whose methods block. Made by `SyncHub.conversation`."""

    def __init__(self, conversation: Conversation, run: Callable[..., Any]) -> None:
        self._conversation = conversation
        self._run = run

    @property
    def listing(self) -> Listing:
        """See `Conversation.listing`."""
        return self._conversation.listing

    @property
    def tools(self) -> list[dict[str, Any]]:
        """See `Conversation.tools`."""
        return self._conversation.tools

    @property
    def toolset(self) -> ToolSet:
        """See `Conversation.toolset`."""
        return self._conversation.toolset

    @property
    def taint(self) -> frozenset[str]:
        """See `Conversation.taint`."""
        return self._conversation.taint

    def add_taint(self, server_ids: Collection[str]) -> None:
        """See `Conversation.add_taint`."""
        self._conversation.add_taint(server_ids)

    def refresh(self) -> bool:
        """See `Conversation.refresh`."""
        return self._run(self._conversation.refresh)

    def execute(self, response: object, **options: Any) -> ToolCallResults:
        """See `Conversation.execute`."""
        return self._run(self._conversation.execute, response, **options)
