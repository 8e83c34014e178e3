"""All names of spans, attributes, events and metrics, in one place.

The ``gen_ai``, ``mcp``, ``network``, ``server``, ``error``, ``rpc`` and ``jsonrpc`` names are those of the
OpenTelemetry semantic conventions for GenAI and MCP (status Development, read 2026-12-01); the ``conduit`` names are
this library's.
"""

from __future__ import annotations

INSTRUMENTATION = "conduit_actors"

# Spans
SPAN_EXECUTE_TOOL = "execute_tool"
SPAN_TOOLS_CALL = "tools/call"
SPAN_APPROVAL = "conduit.approval"
SPAN_HOOKS = "conduit.hooks"
SPAN_TURN = "conduit.turn"
SPAN_SERVER = "conduit.server"

# Attributes of the conventions
OPERATION_NAME = "gen_ai.operation.name"
TOOL_NAME = "gen_ai.tool.name"
TOOL_TYPE = "gen_ai.tool.type"
TOOL_CALL_ID = "gen_ai.tool.call.id"
TOOL_CALL_ARGUMENTS = "gen_ai.tool.call.arguments"
TOOL_CALL_RESULT = "gen_ai.tool.call.result"
AGENT_NAME = "gen_ai.agent.name"
CONVERSATION_ID = "gen_ai.conversation.id"
METHOD_NAME = "mcp.method.name"
PROTOCOL_VERSION = "mcp.protocol.version"
SESSION_ID = "mcp.session.id"
REQUEST_ID = "jsonrpc.request.id"
RESPONSE_STATUS_CODE = "rpc.response.status_code"
NETWORK_TRANSPORT = "network.transport"
NETWORK_PROTOCOL_NAME = "network.protocol.name"
SERVER_ADDRESS = "server.address"
SERVER_PORT = "server.port"
ERROR_TYPE = "error.type"

# Attributes of this library
SERVER_ID = "conduit.server.id"
OUTCOME = "conduit.outcome"
POLICY_ACTION = "conduit.policy.action"
POLICY_RULE = "conduit.policy.rule"
TAINT = "conduit.taint"
QUEUE_WAIT = "conduit.queue.wait"
ATTEMPTS = "conduit.attempts"
ATTEMPT = "conduit.attempt"
TRUNCATED = "conduit.truncated"
PRINCIPAL = "conduit.principal"
SERVER_EVENT = "conduit.server.event"
SERVER_REASON = "conduit.server.reason"
RESTARTS = "conduit.server.restarts"
BACKOFF = "conduit.server.backoff"
NOTICE = "conduit.notice"
NOTICE_REASON = "conduit.notice.reason"
TURN_PROVIDER = "conduit.turn.provider"
TURN_CALLS = "conduit.turn.calls"

# Events on the current span: the prefix, then the kind of notice
EVENT_PREFIX = "conduit."

# Metrics
METRIC_OPERATION_DURATION = "mcp.client.operation.duration"
METRIC_SESSION_DURATION = "mcp.client.session.duration"
METRIC_EXECUTE_TOOL_DURATION = "gen_ai.execute_tool.duration"
METRIC_CALLS = "conduit.calls"
METRIC_IN_FLIGHT = "conduit.calls.in_flight"
METRIC_QUEUE_WAIT = "conduit.queue.wait.duration"
METRIC_APPROVAL_WAIT = "conduit.approval.wait.duration"
METRIC_SERVER_EVENTS = "conduit.server.events"
METRIC_KILLS = "conduit.kills"
METRIC_ZOMBIES = "conduit.zombies"
METRIC_RESULT_SIZE = "conduit.result.size"
METRIC_NOTICES = "conduit.notices"

# Values of error.type beside JSON-RPC codes
TOOL_ERROR = "tool_error"
ERROR_TYPES = {
    "unknown_tool": "unknown_tool",
    "invalid_arguments": "invalid_arguments",
    "denied": "policy_denied",
    "timeout": "timeout",
    "server_unavailable": "connection_closed",
    "outcome_unknown": "connection_closed",
    "overloaded": "overloaded",
    "protocol_error": "protocol_error",
    "cancelled": "cancelled",
    "hook_failed": "hook_failed",
}
"""``error.type`` for each error code of the library."""
