"""`Hub` and `Client`: the two doors to supervised servers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any, Self

import anyio

from conduit_actors.approval_store import Remembered
from conduit_actors.approvals import Approver
from conduit_actors.catalogue import Collisions
from conduit_actors.config_file import load_servers
from conduit_actors.errors import ConfigurationError
from conduit_actors.hooks import Hook
from conduit_actors.hub_actor import AddServer, RemoveServer, RestartServer, UpdateCredentials
from conduit_actors.limits import Limits
from conduit_actors.policy import ASK_EVERYTHING, PolicySource
from conduit_actors.server import HeaderProvider, Server
from conduit_actors.sources import Kind
from conduit_actors.supervised import SupervisedSource


class Hub(SupervisedSource):
    """Many servers behind one door. Their tools are named ``server__tool``.

    A hub always has a policy: without one, every call is an ask, and with no approver that is a denial whose text says
    what to configure. A server that cannot start never keeps the hub from starting.

    Args:
        name: by which the adapters find it.
        servers: connected when the hub is opened, except the lazy ones.
        policy: or a callable that gives each principal's.
        on_ask: the approver, async or plain.
        approval_store: where "always" is remembered: an `ApprovalStore`, the path of one, or a set. None: in memory.
        hooks: in order.
        limits: bounds; see `Limits`.
        collisions: "rename" tells tools of one name apart by a hash, "exclude" leaves the later one out.
    """

    _kind: Kind = "hub"
    _namespaced = True

    def __init__(
        self,
        name: str = "hub",
        *,
        servers: Sequence[Server] = (),
        policy: PolicySource | None = None,
        on_ask: Approver | None = None,
        approval_store: Remembered | str | PathLike[str] | None = None,
        hooks: Sequence[Hook] = (),
        limits: Limits | None = None,
        collisions: Collisions = "rename",
    ) -> None:
        super().__init__(
            name,
            servers=servers,
            policy=ASK_EVERYTHING if policy is None else policy,
            on_ask=on_ask,
            approval_store=approval_store,
            hooks=hooks,
            limits=limits,
            collisions=collisions,
        )

    @classmethod
    def from_config(cls, source: str | PathLike[str] | Mapping[str, Any], **options: Any) -> Self:
        """A hub with the servers of an ``mcpServers`` file, or of its parsed content. The options are those of `Hub`.

        Raises:
            ConfigurationError: the file cannot be used; one line that names the server and the cause.
        """
        name = options.pop("name", "hub")
        return cls(name, servers=load_servers(source), **options)

    async def add_server(self, server: Server) -> None:
        """Add a server and start to connect; it does not wait for the connection.

        Raises:
            ConfigurationError: there is a server with this id.
        """
        await self._hub_ref().ask(AddServer(server), block=False)

    async def remove_server(self, server_id: str) -> None:
        """Remove a server and wait until its connection is closed. Its calls in flight end.

        Raises:
            ConfigurationError: there is no such server.
        """
        await self._all_gone(await self._hub_ref().ask(RemoveServer(server_id), block=False))

    async def restart_server(self, server_id: str) -> None:
        """Close a server's connection and open a new one with a fresh restart budget, parked or not.

        It waits for the close, not for the new connection.

        Raises:
            ConfigurationError: there is no such server.
        """
        await self._all_gone(await self._hub_ref().ask(RestartServer(server_id), block=False))

    async def update_credentials(
        self,
        server_id: str,
        *,
        headers: Mapping[str, str] | HeaderProvider | None = None,
        auth: Any = None,
        env: Mapping[str, str] | None = None,
    ) -> None:
        """Replace credentials of a server while it runs; None leaves one as it is, an empty mapping takes it away.

        Over HTTP an open connection uses them from its next request on, and neither a call nor the session is lost. A
        program has its environment from its start on: with `env` it is restarted. A server that is not up, a parked
        one too, is tried again at once.

        Raises:
            ConfigurationError: there is no such server, or it has no use for what is given.
        """
        given = {"headers": headers, "auth": auth, "env": env}
        changes = {name: value for name, value in given.items() if value is not None}
        await self._all_gone(await self._hub_ref().ask(UpdateCredentials(server_id, changes), block=False))

    @staticmethod
    async def _all_gone(events: list[anyio.Event]) -> None:
        for event in events:
            await event.wait()


class Client(SupervisedSource):
    """One server behind the same door as a hub. Its tools keep their own (sanitised) names.

    Without `policy` and `on_ask` it has no policy, and calls run as asked: give it one before a model gets it. With
    `on_ask` alone every call is an ask.
    """

    _kind: Kind = "client"
    _namespaced = False

    def __init__(
        self,
        name: str,
        server: Server,
        *,
        policy: PolicySource | None = None,
        on_ask: Approver | None = None,
        approval_store: Remembered | str | PathLike[str] | None = None,
        hooks: Sequence[Hook] = (),
        limits: Limits | None = None,
        collisions: Collisions = "rename",
    ) -> None:
        if not isinstance(server, Server):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError("a Client needs a name and a Server")
        super().__init__(
            name,
            servers=[server],
            policy=ASK_EVERYTHING if policy is None and on_ask is not None else policy,
            on_ask=on_ask,
            approval_store=approval_store,
            hooks=hooks,
            limits=limits,
            collisions=collisions,
        )

    async def restart(self) -> None:
        """Close the connection and open a new one with a fresh restart budget."""
        server_id = next(iter(self._runtime.table.servers))
        for event in await self._hub_ref().ask(RestartServer(server_id), block=False):
            await event.wait()
