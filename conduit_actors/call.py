"""One governed call, stage by stage, as it runs inside its worker.

    resolve -> admit -> policy -> approval -> before hooks -> repair -> validate -> send -> shape -> after hooks

Repair also comes before policy, so that all stages see the same arguments. Each stage either passes the call on or
raises a `ConduitError`. Nothing here catches one to carry on: the hub hands it to the caller, and the adapters make the
model's answer of it.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import anyio

from conduit_actors.admission import Place
from conduit_actors.approvals import ApprovalRequest, frozen_copy, same_arguments
from conduit_actors.arguments import check_output
from conduit_actors.connection import Connection, begin_own_span, end_own_span
from conduit_actors.errors import ConduitError, Denied, OutcomeUnknown, ServerUnavailable, UnknownTool
from conduit_actors.hooks import HookCall
from conduit_actors.json_values import plain_arguments
from conduit_actors.policy import PolicyInput
from conduit_actors.results import ToolResult
from conduit_actors.runtime import Runtime
from conduit_actors.server import Server
from conduit_actors.shaping import shape_for_llm
from conduit_actors.sources import OnProgress, Shape
from conduit_actors.toolset import ExposedTool
from conduit_supervision import TaskActor
from conduit_telemetry import CallSpan, RequestSpan, names, stage_span
from conduit_telemetry.metrics import instruments

_NOTABLE_WAIT = 0.001
"""Seconds; a shorter wait for a place is not worth an attribute."""

_NO_ANNOTATIONS: dict[str, Any] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class CallRequest:
    """What the caller asked for. Immutable; times in seconds, `deadline` on the event loop's clock.

    Attributes:
        timeout: for the request to the server; None: the server's own setting.
        deadline: when the whole call ends, on `anyio.current_time`'s clock.
        assigns: the host's own values for hooks and approver; never sent to the server.
        taint: servers whose output is in the model's context.
        meta: sent to the server in ``_meta``.
    """

    call_id: str
    tool: ExposedTool
    arguments: dict[str, Any]
    principal: str | None = None
    assigns: Mapping[str, Any] = field(default_factory=dict[str, Any])
    taint: frozenset[str] = frozenset()
    timeout: float | None = None
    deadline: float = float("inf")
    started: float = field(default_factory=time.perf_counter)
    meta: Mapping[str, Any] | None = None
    on_progress: OnProgress | None = None
    shape: Shape = "llm"


def _to_result(request: CallRequest, raw: Mapping[str, Any], attempts: int) -> ToolResult:
    """The server's answer in wire form as a `ToolResult`."""
    content = raw.get("content")
    meta = raw.get("_meta")
    return ToolResult(
        content=tuple(content) if isinstance(content, list) else (),  # pyright: ignore[reportUnknownArgumentType]
        structured=raw.get("structuredContent"),
        is_error=raw.get("isError") is True,
        meta=meta if isinstance(meta, dict) else None,  # pyright: ignore[reportUnknownArgumentType]
        server_id=request.tool.server_id,
        tool=request.tool.tool,
        duration=time.perf_counter() - request.started,
        attempts=attempts,
    )


class CallWorker(TaskActor):
    """Runs one call and ends. Killing it cancels the call, which tells the server."""

    registered = False
    one_shot = True

    def __init__(self, runtime: Runtime, span: CallSpan) -> None:
        super().__init__()
        self._runtime = runtime
        self._span = span
        self.server_id = span.server_id

    async def on_receive(self, message: CallRequest) -> ToolResult:
        return await run_call(self._runtime, message, self._span)


async def run_call(runtime: Runtime, request: CallRequest, span: CallSpan) -> ToolResult:
    """Take a call through all stages.

    Raises:
        ConduitError: the reason that there is no result.
    """
    tool = request.tool
    waited = time.perf_counter()
    place = Place(runtime.admission, tool.server_id, request.principal)
    await place.enter()
    try:
        waited = time.perf_counter() - waited
        if waited > _NOTABLE_WAIT:
            span.set({names.QUEUE_WAIT: waited})
            instruments().queue_wait.record(waited)
        try:
            return await _run_admitted(runtime, request, span, place)
        except ConduitError as error:
            if runtime.hooks.has_on_error:
                await runtime.hooks.run_on_error(_hook_call(request, request.arguments), error)
            raise
    finally:
        place.leave()


async def _run_admitted(runtime: Runtime, request: CallRequest, span: CallSpan, place: Place) -> ToolResult:
    tool = request.tool
    server = runtime.table.servers.get(tool.server_id)
    if server is None:
        raise runtime.gone(tool.server_id)
    validator = runtime.validator(tool.input_schema) if server.validate else None
    # Repaired at once, so that policy, approver and hooks see what would be sent: an object written as JSON text must
    # not get past a rule that looks into it.
    arguments = request.arguments if validator is None else validator.repair(request.arguments)
    await _authorise(runtime, server, request, arguments, span, place)
    if runtime.hooks.has_before:
        with stage_span(names.SPAN_HOOKS, "before"):
            answer = await runtime.hooks.run_before(_hook_call(request, arguments))
        if isinstance(answer, ToolResult):
            return await _finish(runtime, request, arguments, answer)
        changed = plain_arguments(answer.arguments)
        if not same_arguments(changed, arguments):
            arguments = changed if validator is None else validator.repair(changed)
            # An approval is for the arguments that the approver saw.
            await _authorise(runtime, server, request, arguments, span, place)
    if validator is not None:
        validator.validate(arguments)
    result = await _send(runtime, server, request, arguments)
    if validator is not None and validator.problem is not None:
        result = dataclasses.replace(result, warnings=(*result.warnings, f"the arguments: {validator.problem}"))
    return await _finish(runtime, request, arguments, result)


async def _authorise(
    runtime: Runtime,
    server: Server,
    request: CallRequest,
    arguments: Mapping[str, Any],
    span: CallSpan,
    place: Place,
) -> None:
    """Policy, and approval where it asks for one.

    Raises:
        Denied: by either.
    """
    policy = runtime.policy_of(request.principal)
    if policy is None:
        return
    tool = request.tool
    decision = policy.decide(
        PolicyInput(
            tool.server_id,
            tool.tool,
            request.principal,
            request.taint,
            runtime.annotations(server, tool.tool) if server.annotations else _NO_ANNOTATIONS,
            arguments,
        )
    )
    span.decided(decision.action, decision.rule)
    if decision.action == "allow":
        return
    if decision.action == "deny":
        text = f"the call of {tool.name} is not allowed: {decision.reason}"
        raise Denied(text, server_id=tool.server_id, tool=tool.tool)
    # A person may take minutes: other calls have the place meanwhile.
    place.leave()
    with stage_span(names.SPAN_APPROVAL):
        await runtime.approvals.approve(
            ApprovalRequest(
                call_id=request.call_id,
                server_id=tool.server_id,
                tool=tool.tool,
                arguments=frozen_copy(arguments),
                principal=request.principal,
                reason=decision.reason,
                deadline=request.deadline - anyio.current_time(),
                assigns=request.assigns,
            )
        )
    await place.enter()


async def _send(runtime: Runtime, server: Server, request: CallRequest, arguments: dict[str, Any]) -> ToolResult:
    """Send the call over the server's live connection, waiting a bounded time for one.

    A call that was sent is not sent again, unless the host declared its tool safe to repeat: then once.
    """
    tool = request.tool
    slot = runtime.table.get(tool.server_id, request.principal)
    if slot is None:
        raise runtime.gone(tool.server_id)
    timeout = request.timeout if request.timeout is not None else runtime.request_timeout(server, tool.tool)
    patience: float | None = None
    attempt = 0
    lost: Connection | None = None
    unknown: OutcomeUnknown | None = None
    slot.in_flight += 1
    try:
        while True:
            try:
                connection = slot.live(lost)
                if connection is None:
                    if patience is None:
                        patience = anyio.current_time() + runtime.limits.ready_timeout
                    connection = await slot.wait_ready(patience - anyio.current_time(), lost=lost)
            except ServerUnavailable:
                # What was sent once may have been done, however the second attempt went.
                if unknown is not None:
                    raise unknown from None
                raise
            if tool.tool not in slot.tool_names:
                held = next((one for one in slot.pins if one.held and one.tool == tool.tool), None)
                if held is not None:
                    raise Denied(f"the call of {tool.name} is not allowed: {held.reason}", tool=tool.tool)
                raise UnknownTool(f"{tool.name} is gone: its server does not have it any more", tool=tool.tool)
            attempt += 1
            slot.last_used = time.monotonic()
            try:
                raw = await _attempt(connection, request, arguments, timeout, attempt)
                return _to_result(request, raw, attempt)
            except ServerUnavailable:
                # Not sent: the next connection may have it, as long as the patience lasts.
                attempt -= 1
            except OutcomeUnknown as error:
                if attempt > 1 or not runtime.repeatable(server, tool.tool):
                    raise
                unknown = error
            lost = connection
    finally:
        slot.in_flight -= 1
        slot.last_used = time.monotonic()


async def _attempt(
    connection: Connection, request: CallRequest, arguments: dict[str, Any], timeout: float, attempt: int
) -> dict[str, Any]:
    span = RequestSpan(request.tool.tool, connection.span_attributes, attempt)
    own = begin_own_span()
    try:
        with span.sending():
            raw = await connection.call_tool(
                request.tool.tool, arguments, timeout=timeout, on_progress=request.on_progress, meta=request.meta
            )
    except ConduitError as error:
        span.end(error_type(error), error.message)
        raise
    except BaseException:
        span.end("cancelled")
        raise
    finally:
        end_own_span(own)
    span.end(names.TOOL_ERROR if raw.get("isError") is True else None)
    return raw


async def _finish(
    runtime: Runtime, request: CallRequest, arguments: Mapping[str, Any], result: ToolResult
) -> ToolResult:
    """Shape the result for its reader, then let the after hooks see it."""
    if request.tool.output_schema is not None and not result.is_error:
        warning = check_output(runtime.validator(request.tool.output_schema), result.structured)
        if warning is not None:
            result = dataclasses.replace(result, warnings=(*result.warnings, warning))
    if request.shape == "llm":
        result = shape_for_llm(result, runtime.limits)
    if runtime.hooks.has_after:
        with stage_span(names.SPAN_HOOKS, "after"):
            result = await runtime.hooks.run_after(_hook_call(request, arguments), result)
    return result


def _hook_call(request: CallRequest, arguments: Mapping[str, Any]) -> HookCall:
    return HookCall(
        call_id=request.call_id,
        server_id=request.tool.server_id,
        tool=request.tool.tool,
        arguments=frozen_copy(arguments),
        principal=request.principal,
        assigns=request.assigns,
        taint=request.taint,
    )


def error_type(error: ConduitError) -> str:
    """The ``error.type`` of an error, as the conventions want it: the JSON-RPC code where there is one."""
    rpc_code = getattr(error, "rpc_code", None)
    return str(rpc_code) if rpc_code is not None else names.ERROR_TYPES.get(error.code, error.code)
