"""Things that an operator should know although no call failed: one event with a stable name, and one counter.

The event stands on the current span, if there is one, and in the log.
"""

from __future__ import annotations

import logging
from typing import Any, Literal

from opentelemetry import trace

from conduit_telemetry import names
from conduit_telemetry.metrics import instruments
from conduit_telemetry.redaction import Redactor

Notice = Literal["strict_fallback", "name_collision", "tool_quarantined", "pin_changed", "dead_policy_rule"]

logger = logging.getLogger("conduit_actors.notices")
_redactor = Redactor(max_chars=500)


def notice(kind: Notice, *, server_id: str | None = None, tool: str | None = None, reason: str | None = None) -> None:
    """Tell of a strict schema that fell back, of names that collide, of a tool that was left out, of a tool whose
    pinned definition changed, or of a policy rule that can never match.

    Tool names and reasons may be a server's own text: they go to the span and the log, redacted, but not to the metric.
    """
    attributes: dict[str, Any] = {}
    if server_id is not None:
        attributes[names.SERVER_ID] = server_id
    text = None if reason is None else _redactor.text(reason)
    shown = {
        **attributes,
        **({names.TOOL_NAME: tool} if tool is not None else {}),
        **({names.NOTICE_REASON: text} if text is not None else {}),
    }
    span = trace.get_current_span()
    if span.is_recording():
        span.add_event(names.EVENT_PREFIX + kind, shown)
    instruments().notices.add(1, {**attributes, names.NOTICE: kind})
    about = "/".join(part for part in (server_id, tool) if part)
    logger.warning("%s: %s%s", kind, about or "-", f" ({text})" if text else "")
