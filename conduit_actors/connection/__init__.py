"""One MCP connection, from open to closed: transports, handshake, tool list, calls, death."""

from conduit_actors.connection.session import Connection, RequestObserver, open_connection

__all__ = ["Connection", "RequestObserver", "open_connection"]
