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
from typing import Any

from opentelemetry import context, trace
from opentelemetry.context import Context
from opentelemetry.trace import Span, SpanKind, Status, StatusCode

from conduit_telemetry import names
from conduit_telemetry.content import capturing, encoded
from conduit_telemetry.context import call_attributes, outgoing, principal_label
from conduit_telemetry.metrics import bounded_tool, instruments
from conduit_telemetry.redaction import Redactor

_tracer = trace.get_tracer(names.INSTRUMENTATION)
_open: set[_OpenSpan] = set()
_adopted: weakref.WeakSet[Span] = weakref.WeakSet()
_redactor = Redactor(max_chars=500)


class _Attached:
    """A context that is the current one inside ``with``. A class, as generators cost twice as much here."""

    __slots__ = ("_context", "_token")

    def __init__(self, attached: Context) -> None:
        self._context = attached

    def __enter__(self) -> None:
        self._token = context.attach(self._context)

    def __exit__(self, *failure: object) -> None:
        context.detach(self._token)


class _OpenSpan:
    """A span that ends exactly once."""

    def __init__(self, span: Span, *, owned: bool = True) -> None:
        self.span = span
        self._owned = owned
        self._started = time.perf_counter()
        self._ended = False
        if span.is_recording():
            _open.add(self)

    @property
    def context(self) -> Context:
        """A context in which the span is the current one."""
        return trace.set_span_in_context(self.span)

    def current(self) -> _Attached:
        """Make it the current span; within one coroutine frame only."""
        return _Attached(self.context)

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
        if self._owned:
            self.span.end()
        return time.perf_counter() - self._started

    def abort(self) -> None:
        """End it because the process ends."""
        self.finish("aborted")


class CallSpan(_OpenSpan):
    """``execute_tool NAME``: the whole of a governed call.

    Where the agent's own span traces this very execution already, it is added to, and left to its owner to end.

    Args:
        name: as the model knows the tool.
        tool: the server's own name of it.
        call_id: the model's id of the call.
        principal: recorded only as `record_principals` says.
    """

    def __init__(
        self,
        *,
        name: str,
        server_id: str,
        tool: str,
        call_id: str | None,
        taint: frozenset[str],
        principal: str | None = None,
    ) -> None:
        # Looked up once: a call's content is recorded as a whole or not at all.
        self._captures = capturing()
        attributes: dict[str, Any] = {
            names.OPERATION_NAME: "execute_tool",
            names.TOOL_NAME: name,
            names.TOOL_TYPE: "extension",
            names.SERVER_ID: server_id,
        }
        if call_id is not None:
            attributes[names.TOOL_CALL_ID] = call_id
        if taint:
            attributes[names.TAINT] = sorted(taint)
        label = principal_label(principal)
        if label is not None:
            attributes[names.PRINCIPAL] = label
        attributes |= call_attributes()
        outer = _outer_span(name, tool, call_id)
        if outer is None:
            super().__init__(_tracer.start_span(f"{names.SPAN_EXECUTE_TOOL} {name}", attributes=attributes))
        else:
            super().__init__(outer, owned=False)
            outer.set_attributes(attributes)
        self._name = name
        self.server_id = server_id
        self._decision: dict[str, Any] = {}
        instruments().in_flight.add(1, {names.SERVER_ID: server_id})

    def decided(self, action: str, rule: str | None) -> None:
        """Note the policy's decision; it is on the span when that ends."""
        self._decision = {names.POLICY_ACTION: action}
        if rule is not None:
            self._decision[names.POLICY_RULE] = rule

    @property
    def captures(self) -> bool:
        """Whether the host opted in to have arguments and result recorded."""
        return self._captures and self.span.is_recording()

    def arguments(self, arguments: Any, redactor: Redactor | None = None) -> None:
        """Record the arguments, if the host opted in. `redactor` knows the server's own secrets."""
        if self.captures:
            self.span.set_attribute(names.TOOL_CALL_ARGUMENTS, encoded(arguments, redactor))

    def result(self, result: Any, redactor: Redactor | None = None) -> None:
        """Record the result, if the host opted in."""
        if self.captures:
            self.span.set_attribute(names.TOOL_CALL_RESULT, encoded(result, redactor))

    def abort(self) -> None:
        self.end("aborted", error_type="aborted")

    def end(
        self,
        outcome: str,
        *,
        error_type: str | None = None,
        description: str | None = None,
        attempts: int = 0,
        truncated: bool = False,
        result_bytes: int | None = None,
    ) -> None:
        """End it with the call's outcome: "ok", "tool_error" or the code of an error. Later calls do nothing."""
        if self._ended:
            return
        # All at once: setting attributes one by one costs a third more.
        last = {**self._decision, names.OUTCOME: outcome, names.ATTEMPTS: attempts}
        if truncated:
            last[names.TRUNCATED] = True
        self.set(last)
        seconds = self.finish(error_type, description)
        tool = bounded_tool(self._name)
        common: dict[str, Any] = {names.SERVER_ID: self.server_id}
        made = instruments()
        made.in_flight.add(-1, common)
        made.calls.add(1, {**common, names.OUTCOME: outcome})
        attributes = {names.TOOL_NAME: tool}
        if error_type is not None:
            attributes[names.ERROR_TYPE] = error_type
        made.execute_tool.record(seconds or 0.0, attributes)
        if result_bytes is not None:
            made.result_size.record(result_bytes, common)


def _outer_span(name: str, tool: str, call_id: str | None) -> Span | None:
    """The current span, if it is the agent's own of this execution. Each is added to by one call only."""
    current = trace.get_current_span()
    if not current.is_recording() or getattr(current, "kind", None) is not SpanKind.INTERNAL or current in _adopted:
        return None
    # The API has no way to read a span; the SDK's spans have this public property.
    found: Mapping[str, Any] = getattr(current, "attributes", None) or {}
    if found.get(names.OPERATION_NAME) != "execute_tool" or found.get(names.TOOL_NAME) not in (name, tool):
        return None
    if names.SERVER_ID in found or found.get(names.TOOL_CALL_ID, call_id) != call_id:
        return None
    _adopted.add(current)
    return current


class RequestSpan(_OpenSpan):
    """``tools/call NAME``: one attempt on the wire."""

    def __init__(self, tool: str, attributes: Mapping[str, Any], attempt: int) -> None:
        self._attributes = {
            names.METHOD_NAME: "tools/call",
            names.OPERATION_NAME: "execute_tool",
            names.TOOL_NAME: tool,
            **attributes,
        }
        shown = self._attributes if attempt == 1 else {**self._attributes, names.ATTEMPT: attempt}
        super().__init__(_tracer.start_span(f"{names.SPAN_TOOLS_CALL} {tool}", kind=SpanKind.CLIENT, attributes=shown))
        self._tool = tool

    def sending(self) -> _Attached:
        """Make it current, without the host's baggage: that is not for servers, unless configured."""
        return _Attached(outgoing(self.context))

    def end(self, error_type: str | None = None, description: str | None = None) -> None:
        """End it and record its duration. An `error_type` that is a number is the code of a JSON-RPC error."""
        is_code = error_type is not None and error_type.removeprefix("-").isdecimal()
        if is_code and not self._ended:
            self.set({names.RESPONSE_STATUS_CODE: error_type})
        seconds = self.finish(error_type, description)
        if seconds is not None:
            attributes = {
                key: value for key, value in self._attributes.items() if key not in (names.SESSION_ID, names.TOOL_NAME)
            }
            attributes[names.TOOL_NAME] = bounded_tool(self._tool)
            if error_type is not None:
                attributes[names.ERROR_TYPE] = error_type
            if is_code and error_type is not None:
                attributes[names.RESPONSE_STATUS_CODE] = error_type
            instruments().operation.record(seconds, attributes)


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
        one.abort()
    return len(left)
