"""One MCP connection, from open to closed: transports, handshake, tool list, calls, death."""

from conduit_actors.connection.opening import open_connection
from conduit_actors.connection.sdk_span import begin_own_span, end_own_span
from conduit_actors.connection.session import Connection

__all__ = ["Connection", "begin_own_span", "end_own_span", "open_connection"]
