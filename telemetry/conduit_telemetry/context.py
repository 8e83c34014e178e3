"""What the host says of a call beside its arguments: the agent, the conversation, the tenant.

All of it travels in private keys of OpenTelemetry's context. None is baggage: baggage would be sent to servers.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, Literal

from opentelemetry import baggage, context
from opentelemetry.context import Context

from conduit_telemetry import names

PrincipalLabel = Callable[[str], str | None] | Literal["hash"] | None

_AGENT = context.create_key("conduit-agent")
_CONVERSATION = context.create_key("conduit-conversation")
_HASH_KEY = secrets.token_bytes(32)

_forward_baggage = False
_principal_label: PrincipalLabel = None


@contextmanager
def conversation(conversation_id: str | None = None, *, agent: str | None = None) -> Generator[None, None, None]:
    """Calls made in here carry this conversation and agent on their spans. Use it within one coroutine frame.

    Args:
        conversation_id: the host's own id; the library never makes one up.
        agent: the agent's name. Keep the number of different ones small: samplers see it.
    """
    current = context.get_current()
    if conversation_id is not None:
        current = context.set_value(_CONVERSATION, conversation_id, current)
    if agent is not None:
        current = context.set_value(_AGENT, agent, current)
    token = context.attach(current)
    try:
        yield
    finally:
        context.detach(token)


def call_attributes() -> dict[str, Any]:
    """The attributes that `conversation` asks for."""
    found: dict[str, Any] = {}
    agent = context.get_value(_AGENT)
    if agent is not None:
        found[names.AGENT_NAME] = agent
    conversation_id = context.get_value(_CONVERSATION)
    if conversation_id is not None:
        found[names.CONVERSATION_ID] = conversation_id
    return found


def principal_label(principal: str | None) -> str | None:
    """What a span may say of this principal, or None: nothing. It never goes into metrics."""
    if principal is None or _principal_label is None:
        return None
    if _principal_label == "hash":
        # Keyed, and with a key of this process: an id from a small set could be found by trying all of them.
        return hmac.new(_HASH_KEY, principal.encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()[:16]
    return _principal_label(principal)


def record_principals(label: PrincipalLabel) -> None:
    """How spans name principals: None (the default): not at all; "hash": by a hash that differs from process to
    process; or a function that gives the text, or None for a principal that is not to be named."""
    global _principal_label
    _principal_label = label


def forward_baggage(forward: bool) -> None:
    """Whether the host's baggage is sent to servers. Off by default."""
    global _forward_baggage
    _forward_baggage = forward


def outgoing(target: Context) -> Context:
    """`target` as it may be seen by a server: without baggage, unless `forward_baggage` was called."""
    return target if _forward_baggage else baggage.clear(target)
