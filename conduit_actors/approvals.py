"""Approvals: asking a person, or a program that stands for one, before a call is sent."""

from __future__ import annotations

import copy
import inspect
import json
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import anyio
import anyio.to_thread

from conduit_actors.approval_store import ApprovalKey, Remembered
from conduit_actors.errors import Denied, bounded
from conduit_actors.host_faults import kind_and_place

logger = logging.getLogger(__name__)

_THREADS = 32
"""Plain approvers that may block at once for one principal, in threads of their own: a person may take minutes, and
one principal's people hold up no other's."""

_STORE_THREADS = 4
"""A store writes to a disk; more at once would not make it faster."""

_MARGIN = 0.1
"""Share of the time that is left, and at most so many seconds: the denial is to come before the call's deadline."""

Remember: TypeAlias = Literal["session", "always"] | None


@dataclass(frozen=True, slots=True)
class Allow:
    """The approver's yes. `remember` lets further calls of this tool by this principal pass: "session" until the hub
    closes, "always" as long as the hub's `approval_store` has it."""

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
        always: (principal, server id, raw tool name) of what was allowed "always"; None: kept in memory.
        timeout: seconds for one answer; None: as long as the call lives.
    """

    def __init__(
        self,
        on_ask: Approver | None = None,
        always: Remembered | None = None,
        *,
        timeout: float | None = None,
    ) -> None:
        self._on_ask = on_ask
        self._timeout = timeout
        self._session = set[ApprovalKey]()
        self._always: Remembered = set[ApprovalKey]() if always is None else always
        self._threads: dict[str | None, anyio.CapacityLimiter] = {}
        self._using = Counter[str | None]()
        self._store_threads: anyio.CapacityLimiter | None = None

    async def approve(self, request: ApprovalRequest) -> None:
        """Return if the call may run.

        Raises:
            Denied: it may not; the text says why.
        """
        key = (request.principal, request.server_id, request.tool)
        if key in self._session or await self._remembered(key):
            return
        if self._on_ask is None:
            raise self._denied(
                request,
                f"{request.tool} needs an approval and there is nobody to ask: "
                "give the hub on_ask=, or a policy that allows the tool",
            )
        # Somewhat before the call's own deadline, so that the caller hears why.
        seconds = request.deadline - min(_MARGIN, request.deadline * _MARGIN)
        answer: object = None
        with anyio.move_on_after(seconds if self._timeout is None else min(seconds, self._timeout)) as scope:
            answer = await self._ask(self._on_ask, request)
        if scope.cancelled_caught:
            raise self._denied(request, f"the call of {request.tool} was not approved: nobody answered in time")
        if isinstance(answer, Deny):
            reason = f": {answer.reason}" if answer.reason else ""
            raise self._denied(request, f"the call of {request.tool} was not approved{reason}", halt=answer.halt)
        if not isinstance(answer, Allow):
            kind = type(answer).__name__
            raise self._denied(request, f"the call of {request.tool} was not approved: the approver answered {kind}")
        if answer.remember == "session":
            self._session.add(key)
        elif answer.remember == "always":
            await self._remember(key)

    async def _remembered(self, key: ApprovalKey) -> bool:
        try:
            return bool(await self._off_loop(self._always.__contains__, key))
        except Exception as error:  # noqa: BLE001 - the host's store raises what it likes
            # What cannot be looked up was not approved: ask again.
            logger.error("the approval store cannot be read: %s", kind_and_place(error))
            return False

    async def _remember(self, key: ApprovalKey) -> None:
        try:
            await self._off_loop(self._always.add, key)
        except Exception as error:  # noqa: BLE001 - the host's store raises what it likes
            # This call was approved all the same; the next one is asked for again.
            logger.error("the approval store cannot be written: %s", kind_and_place(error))

    async def _off_loop(self, method: Callable[[ApprovalKey], Any], key: ApprovalKey) -> Any:
        if isinstance(self._always, set):
            return method(key)
        if self._store_threads is None:
            self._store_threads = anyio.CapacityLimiter(_STORE_THREADS)
        return await anyio.to_thread.run_sync(method, key, limiter=self._store_threads)

    async def _in_thread(self, on_ask: Approver, request: ApprovalRequest) -> object:
        """A plain approver may block, e.g. on a prompt; it is abandoned when the call's deadline passes."""
        principal = request.principal
        self._using[principal] += 1
        try:
            limiter = self._threads.get(principal)
            if limiter is None:
                limiter = self._threads[principal] = anyio.CapacityLimiter(_THREADS)
            return await anyio.to_thread.run_sync(on_ask, request, abandon_on_cancel=True, limiter=limiter)
        finally:
            self._using[principal] -= 1
            if not self._using[principal]:
                del self._using[principal], self._threads[principal]

    async def _ask(self, on_ask: Approver, request: ApprovalRequest) -> object:
        try:
            call = getattr(type(on_ask), "__call__", None)  # noqa: B004 (an object may be callable by an async method)
            if inspect.iscoroutinefunction(on_ask) or inspect.iscoroutinefunction(call):
                answer: object = on_ask(request)
            else:
                answer = await self._in_thread(on_ask, request)
            return await answer if inspect.isawaitable(answer) else answer
        except Exception as error:
            # The approver is the host's own code; that it failed is all that the model may know.
            logger.error("the approver raised %s", kind_and_place(error))
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
