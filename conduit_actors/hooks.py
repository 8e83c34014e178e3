"""Hooks: the host's own code before and after a call."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from conduit_actors.errors import ConduitError, HookFailed
from conduit_actors.results import ToolResult


@dataclass(frozen=True, slots=True)
class HookCall:
    """A call as hooks see it. To change the arguments, return ``call.with_arguments(...)`` from `Hook.before`."""

    call_id: str
    server_id: str
    tool: str
    arguments: Mapping[str, Any] = field(repr=False)
    principal: str | None = None
    assigns: Mapping[str, Any] = field(default_factory=dict[str, Any], repr=False)
    taint: frozenset[str] = frozenset()

    def with_arguments(self, arguments: Mapping[str, Any]) -> HookCall:
        """The same call with other arguments; they are validated, and checked by the policy, again."""
        return replace(self, arguments=dict(arguments))


BeforeAnswer: TypeAlias = HookCall | ToolResult | None


class Hook:
    """Base class; override what you need, plain or async. Plain methods run on the event loop and must not block.

    A hook that raises fails its call, and no other, with `hook_failed`; a `ConduitError` that it raises (e.g. `Denied`)
    is the call's outcome as it is. If `before` raises, nothing is sent.
    """

    def before(self, call: HookCall) -> Any:
        """None to go on, a `HookCall` with other arguments, or a `ToolResult` that answers without a call."""
        return None

    def after(self, call: HookCall, result: ToolResult) -> Any:
        """None to keep the result, or the `ToolResult` to use instead."""
        return None

    def on_error(self, call: HookCall, error: ConduitError) -> Any:
        """Told of a call that failed. What it returns or raises changes nothing."""
        return None


class Hooks:
    """The hooks of a hub, in order: before hooks from first to last, the others from last to first."""

    def __init__(self, hooks: Sequence[Hook] = ()) -> None:
        self._hooks = tuple(hooks)
        self._before = [hook for hook in self._hooks if _overrides(hook, "before")]
        self._after = [hook for hook in reversed(self._hooks) if _overrides(hook, "after")]
        self._on_error = [hook for hook in reversed(self._hooks) if _overrides(hook, "on_error")]

    @property
    def has_before(self) -> bool:
        return bool(self._before)

    @property
    def has_after(self) -> bool:
        return bool(self._after)

    @property
    def has_on_error(self) -> bool:
        return bool(self._on_error)

    async def run_before(self, call: HookCall) -> HookCall | ToolResult:
        """The call as the hooks want it, or a result in its place.

        Raises:
            HookFailed: a hook raised, or returned something else.
        """
        for hook in self._before:
            answer = await _call(hook, "before", call)
            if isinstance(answer, ToolResult):
                return answer
            if isinstance(answer, HookCall):
                call = answer
            elif answer is not None:
                raise HookFailed(f"{type(hook).__name__}.before returned {type(answer).__name__}", tool=call.tool)
        return call

    async def run_after(self, call: HookCall, result: ToolResult) -> ToolResult:
        """The result as the hooks want it.

        Raises:
            HookFailed: a hook raised, or returned something else.
        """
        for hook in self._after:
            answer = await _call(hook, "after", call, result)
            if isinstance(answer, ToolResult):
                result = answer
            elif answer is not None:
                raise HookFailed(f"{type(hook).__name__}.after returned {type(answer).__name__}", tool=call.tool)
        return result

    async def run_on_error(self, call: HookCall, error: ConduitError) -> None:
        """Tell the hooks of a failure; the first failure stays the call's outcome."""
        for hook in self._on_error:
            try:
                await _call(hook, "on_error", call, error)
            except ConduitError:
                continue


async def _call(hook: Hook, method: str, call: HookCall, *args: object) -> Any:
    try:
        answer = getattr(hook, method)(call, *args)
        return await answer if inspect.isawaitable(answer) else answer
    except ConduitError:
        raise
    except Exception as error:
        raise HookFailed(
            f"{type(hook).__name__}.{method} failed ({type(error).__name__}); ask the operator",
            server_id=call.server_id,
            tool=call.tool,
        ) from error


def _overrides(hook: Hook, method: str) -> bool:
    return getattr(type(hook), method, None) is not getattr(Hook, method)
