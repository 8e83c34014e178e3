"""Approvals: asking a person, or a program that stands for one, before a call is sent."""

from __future__ import annotations

import copy
import inspect
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import anyio
import anyio.to_thread

from conduit_actors.errors import Denied, bounded

Remember: TypeAlias = Literal["session", "always"] | None


@dataclass(frozen=True, slots=True)
class Allow:
    """The approver's yes. `remember` lets further calls of this tool by this principal pass: "session" until the hub
    closes, "always" as long as the host keeps the `Approvals` store."""

    remember: Remember = None


@dataclass(frozen=True, slots=True)
class Deny:
    """The approver's no. The reason is told to the model; `halt` also asks the agent loop to stop."""

    reason: str = ""
    halt: bool = False


@dataclass(frozen=True, slots=True)
class ApprovalRequest:
    """One call that waits for an answer. It is a copy: changing it changes nothing of the call.

    Attributes:
        call_id: unique per call; the answer is for this call and these arguments only.
        reason: why it is asked.
        deadline: seconds that are left for the whole call, the answer included.
        assigns: the host's own values for this call.
    """

    call_id: str
    server_id: str
    tool: str
    arguments: Mapping[str, Any] = field(repr=False)
    principal: str | None = None
    reason: str = ""
    deadline: float = float("inf")
    assigns: Mapping[str, Any] = field(default_factory=dict[str, Any], repr=False)


Answer: TypeAlias = Allow | Deny
Approver: TypeAlias = Callable[[ApprovalRequest], Answer | Awaitable[Answer]]


class Approvals:
    """Asks an approver, and remembers what it said to remember.

    Anything but an `Allow` denies: an exception, an answer of another type, no answer within the call's deadline.

    Args:
        on_ask: async, or plain and then run in a thread. None: every ask is a denial that says what to configure.
        always: (principal, server id, raw tool name) of what was allowed "always"; the host may keep and share it.
    """

    def __init__(self, on_ask: Approver | None = None, always: set[tuple[str | None, str, str]] | None = None) -> None:
        self._on_ask = on_ask
        self._session: set[tuple[str | None, str, str]] = set()
        self.always = set[tuple[str | None, str, str]]() if always is None else always

    async def approve(self, request: ApprovalRequest) -> None:
        """Return if the call may run.

        Raises:
            Denied: it may not; the text says why.
        """
        key = (request.principal, request.server_id, request.tool)
        if key in self._session or key in self.always:
            return
        if self._on_ask is None:
            raise self._denied(
                request,
                f"{request.tool} needs an approval and there is nobody to ask: "
                "give the hub on_ask=, or a policy that allows the tool",
            )
        answer = await self._ask(self._on_ask, request)
        if isinstance(answer, Deny):
            reason = f": {answer.reason}" if answer.reason else ""
            raise self._denied(request, f"the call of {request.tool} was not approved{reason}", halt=answer.halt)
        if not isinstance(answer, Allow):
            kind = type(answer).__name__
            raise self._denied(request, f"the call of {request.tool} was not approved: the approver answered {kind}")
        if answer.remember == "session":
            self._session.add(key)
        elif answer.remember == "always":
            self.always.add(key)

    async def _ask(self, on_ask: Approver, request: ApprovalRequest) -> object:
        try:
            call = getattr(type(on_ask), "__call__", None)  # noqa: B004 (an object may be callable by an async method)
            if inspect.iscoroutinefunction(on_ask) or inspect.iscoroutinefunction(call):
                answer: object = on_ask(request)
            else:
                # A plain approver may block, e.g. on a prompt; abandoned when the call's deadline passes.
                answer = await anyio.to_thread.run_sync(on_ask, request, abandon_on_cancel=True)
            return await answer if inspect.isawaitable(answer) else answer
        except Exception as error:
            # The approver is the host's own code; that it failed is all that the model may know.
            raise self._denied(
                request, f"the call of {request.tool} was not approved: the approver failed ({type(error).__name__})"
            ) from error

    @staticmethod
    def _denied(request: ApprovalRequest, text: str, *, halt: bool = False) -> Denied:
        return Denied(bounded(text), server_id=request.server_id, tool=request.tool, halt=halt)


def frozen_copy(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of JSON arguments that shares nothing with the original."""
    return copy.deepcopy(dict(arguments))


def same_arguments(left: Mapping[str, Any], right: Mapping[str, Any]) -> bool:
    """Whether two argument objects are the same JSON: 1 and True, or 1 and 1.0, are not."""
    return json.dumps(left, sort_keys=True, default=str) == json.dumps(right, sort_keys=True, default=str)
