"""The spans of one governed call.

    execute_tool files__read          INTERNAL   the whole call
    ├─ conduit.approval               INTERNAL   only if somebody was asked
    ├─ conduit.hooks before|after     INTERNAL   only if there are hooks
    └─ tools/call read                CLIENT     one for each attempt on the wire

Each span ends exactly once, and the first outcome wins: a call is classified here, not by an exception that passes
through a context manager, since OpenTelemetry's own leave killed and cancelled calls without a status.
"""

from __future__ import annotations

import time
import weakref
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from contextvars import Token
from typing import Any

from opentelemetry import baggage, context, trace
from opentelemetry.context import Context
from opentelemetry.trace import Span, SpanKind, Status, StatusCode

from conduit_telemetry import names
from conduit_telemetry.metrics import bounded_tool, instruments
from conduit_telemetry.redaction import Redactor

_tracer = trace.get_tracer(names.INSTRUMENTATION)
_open: weakref.WeakSet[_OpenSpan] = weakref.WeakSet()
_redactor = Redactor(max_chars=500)
_forward_baggage = False


class _OpenSpan:
    """A span that ends exactly once."""

    def __init__(self, span: Span) -> None:
        self.span = span
        self._started = time.perf_counter()
        self._ended = False
        if span.is_recording():
            _open.add(self)

    @property
    def context(self) -> Context:
        """A context in which the span is the current one."""
        return trace.set_span_in_context(self.span)

    @contextmanager
    def current(self) -> Generator[None, None, None]:
        """Make it the current span; within one coroutine frame only."""
        token = context.attach(self.context)
        try:
            yield
        finally:
            context.detach(token)

    def set(self, attributes: Mapping[str, Any]) -> None:
        """Add attributes."""
        if self.span.is_recording():
            self.span.set_attributes(attributes)

    def finish(self, error_type: str | None = None, description: str | None = None) -> float | None:
        """End it; ERROR with `error_type`, else unset. The duration in seconds, or None if it had ended before."""
        if self._ended:
            return None
        self._ended = True
        _open.discard(self)
        if error_type is not None and self.span.is_recording():
            self.span.set_attribute(names.ERROR_TYPE, error_type)
            text = None if description is None else _redactor.text(description)
            self.span.set_status(Status(StatusCode.ERROR, text))
        self.span.end()
        return time.perf_counter() - self._started


class CallSpan(_OpenSpan):
    """``execute_tool NAME``: the whole of a governed call.

    Samplers see only what a span starts with, so the operation and the tool are given then. All else is gathered and
    set once at the end, which costs a third less than one by one.
    """

    def __init__(self, *, name: str, server_id: str, call_id: str | None, taint: frozenset[str]) -> None:
        super().__init__(
            _tracer.start_span(
                f"{names.SPAN_EXECUTE_TOOL} {name}",
                attributes={names.OPERATION_NAME: "execute_tool", names.TOOL_NAME: name, names.TOOL_TYPE: "extension"},
            )
        )
        self._name = name
        self._common = {names.SERVER_ID: server_id}
        self._noted: dict[str, Any] = {names.SERVER_ID: server_id}
        if call_id is not None:
            self._noted[names.TOOL_CALL_ID] = call_id
        if taint:
            self._noted[names.TAINT] = sorted(taint)
        instruments().in_flight.add(1, self._common)

    def note(self, name: str, value: Any) -> None:
        """An attribute for the end."""
        self._noted[name] = value

    def decided(self, action: str, rule: str | None) -> None:
        """Note the policy's decision."""
        self._noted[names.POLICY_ACTION] = action
        if rule is not None:
            self._noted[names.POLICY_RULE] = rule

    def end(
        self,
        outcome: str,
        *,
        error_type: str | None = None,
        description: str | None = None,
        attempts: int = 0,
        truncated: bool = False,
    ) -> None:
        """End it with the call's outcome: "ok", "tool_error" or the code of an error. Later calls do nothing."""
        if self._ended:
            return
        noted = self._noted
        noted[names.OUTCOME] = outcome
        noted[names.ATTEMPTS] = attempts
        noted[names.TRUNCATED] = truncated
        self.set(noted)
        seconds = self.finish(error_type, description)
        made = instruments()
        made.in_flight.add(-1, self._common)
        made.calls.add(1, {**self._common, names.OUTCOME: outcome})
        attributes = {names.TOOL_NAME: bounded_tool(self._name)}
        if error_type is not None:
            attributes[names.ERROR_TYPE] = error_type
        made.execute_tool.record(seconds or 0.0, attributes)


class RequestSpan(_OpenSpan):
    """``tools/call NAME``: one attempt on the wire."""

    def __init__(self, tool: str, attributes: Mapping[str, Any], attempt: int) -> None:
        shown = {
            names.METHOD_NAME: "tools/call",
            names.OPERATION_NAME: "execute_tool",
            names.TOOL_NAME: tool,
            **attributes,
        }
        if attempt > 1:
            shown[names.ATTEMPT] = attempt
        super().__init__(_tracer.start_span(f"{names.SPAN_TOOLS_CALL} {tool}", kind=SpanKind.CLIENT, attributes=shown))
        self._attributes = shown
        self._tool = tool

    def attach(self) -> Token[Context]:
        """Make it current, without the host's baggage: that is not for servers, unless configured.

        To be undone with `detach` in the same coroutine frame.
        """
        return context.attach(self.context if _forward_baggage else baggage.clear(self.context))

    @staticmethod
    def detach(token: Token[Context]) -> None:
        """Undo `attach`."""
        context.detach(token)

    def end(self, error_type: str | None = None, description: str | None = None) -> None:
        """End it and record its duration."""
        seconds = self.finish(error_type, description)
        if seconds is not None:
            attributes = {key: value for key, value in self._attributes.items() if key not in _NOT_IN_METRICS}
            attributes[names.TOOL_NAME] = bounded_tool(self._tool)
            if error_type is not None:
                attributes[names.ERROR_TYPE] = error_type
            instruments().operation.record(seconds, attributes)


_NOT_IN_METRICS = frozenset({names.SESSION_ID, names.ATTEMPT})


@contextmanager
def stage_span(name: str, detail: str = "") -> Generator[None, None, None]:
    """A child span around a stage that takes time. It must not cross a task."""
    stage = _OpenSpan(_tracer.start_span(f"{name} {detail}".rstrip()))
    error: str | None = None
    try:
        with stage.current():
            yield
    except BaseException as failure:
        error = names.ERROR_TYPES.get(getattr(failure, "code", ""), type(failure).__name__)
        raise
    finally:
        seconds = stage.finish(error)
        if name == names.SPAN_APPROVAL and seconds is not None:
            instruments().approval_wait.record(seconds)


@contextmanager
def turn_span(provider: str, calls: int) -> Generator[None, None, None]:
    """A span around the calls of one model turn, when there are several."""
    if calls < 2:
        yield
        return
    turn = _OpenSpan(
        _tracer.start_span(names.SPAN_TURN, attributes={names.TURN_PROVIDER: provider, names.TURN_CALLS: calls})
    )
    error: str | None = None
    try:
        with turn.current():
            yield
    except BaseException as failure:
        error = type(failure).__name__
        raise
    finally:
        turn.finish(error)


def abort_open_spans() -> int:
    """End every span that is still open, as aborted: one that never ends is never exported. How many there were."""
    left = list(_open)
    for one in left:
        one.finish("aborted")
    return len(left)


def forward_baggage(forward: bool) -> None:
    """Whether the host's baggage is sent to servers. Off by default."""
    global _forward_baggage
    _forward_baggage = forward
