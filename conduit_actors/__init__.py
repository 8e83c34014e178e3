"""An OTP-style supervision tree between an LLM agent and its MCP servers.

async with Hub("agents", servers=[Server("files", command="my-server")], policy=Policy(allow=["files/*"])) as hub:
    listing = await adapters.tools(hub, "anthropic")
    results = await listing.execute(response)
"""

import logging as _logging

from conduit_actors import adapters, errors
from conduit_actors.approval_store import ApprovalStore
from conduit_actors.approvals import Allow, ApprovalRequest, Deny
from conduit_actors.conversation import Conversation
from conduit_actors.hooks import Hook, HookCall
from conduit_actors.hub import Client, Hub
from conduit_actors.limits import Limits
from conduit_actors.pinning import PinFinding, PinStore
from conduit_actors.policy import Policy, rule, tainted
from conduit_actors.results import ToolCall, ToolResult
from conduit_actors.server import RestartPolicy, Server
from conduit_actors.sync import SyncHub
from conduit_actors.toolset import ExposedTool, ToolSet

__all__ = [
    "Allow",
    "ApprovalRequest",
    "ApprovalStore",
    "Client",
    "Conversation",
    "Deny",
    "ExposedTool",
    "Hook",
    "HookCall",
    "Hub",
    "Limits",
    "PinFinding",
    "PinStore",
    "Policy",
    "RestartPolicy",
    "Server",
    "SyncHub",
    "ToolCall",
    "ToolResult",
    "ToolSet",
    "adapters",
    "errors",
    "rule",
    "tainted",
]

# A library logs and lets the application decide what is shown.
_logging.getLogger("conduit_actors").addHandler(_logging.NullHandler())
