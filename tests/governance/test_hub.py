"""The stages of a call as one meets them at a hub: rules on arguments, tenants, remembered approvals, secrets."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp_types import CallToolResult, TextContent

import kitchen
from conduit_actors import (
    Allow,
    ApprovalStore,
    Deny,
    Hook,
    HookCall,
    Hub,
    Limits,
    Policy,
    Server,
    ToolResult,
    errors,
    rule,
)
from conduit_actors.results import ContentBlock
from support import open_hub

pytestmark = pytest.mark.anyio


async def code(hub: Hub, name: str, arguments: Any = None, **options: Any) -> str:
    try:
        await hub.call_tool(name, arguments, **options)
    except errors.ConduitError as error:
        return error.code
    return "ok"


def with_orders() -> kitchen.Kitchen:
    server = kitchen.build()

    @server.tool()
    async def order(item: dict[str, Any], note: str = "") -> str:
        server.calls.append(str(item))
        return note

    return server


async def test_a_rule_on_arguments_is_not_evaded_by_json_text() -> None:
    server = with_orders()
    dear = rule("shop/order", when=lambda arguments: arguments["item"]["price"] > 100)
    async with open_hub(Server("shop", transport=server), policy=Policy(allow=["*"], deny=[dear])) as hub:
        assert await code(hub, "shop__order", {"item": {"price": 5}}) == "ok"
        assert await code(hub, "shop__order", {"item": {"price": 500}}) == "denied"
        assert await code(hub, "shop__order", {"item": '{"price": 500}'}) == "denied"
        assert server.calls == ["{'price': 5}"]


async def test_the_approver_sees_what_is_sent_and_nothing_it_does_changes_it() -> None:
    server = with_orders()
    seen: list[Any] = []

    def on_ask(request: Any) -> Any:
        seen.append(dict(request.arguments))
        request.arguments["item"]["price"] = 0
        return Allow()

    async with open_hub(Server("shop", transport=server), policy=Policy(ask=["*"]), on_ask=on_ask) as hub:
        mine = {"item": '{"price": 500}', "note": None}
        assert await code(hub, "shop__order", mine) == "ok"
    assert seen[0]["item"] is not None
    assert server.calls == ["{'price': 500}"]
    assert mine == {"item": '{"price": 500}', "note": None}


async def test_two_calls_of_one_tool_are_two_questions() -> None:
    asked: list[str] = []

    async def on_ask(request: Any) -> Any:
        asked.append(request.call_id)
        return Allow() if request.arguments["text"] == "yes" else Deny("no")

    async with open_hub(Server("k", transport=kitchen.build()), policy=Policy(ask=["*"]), on_ask=on_ask) as hub:
        outcome: dict[str, str] = {}

        async def call(text: str) -> None:
            outcome[text] = await code(hub, "k__echo", {"text": text}, call_id=text)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call, "yes")
            tasks.start_soon(call, "no")
        assert outcome == {"yes": "ok", "no": "denied"}
        assert sorted(asked) == ["no", "yes"]


@pytest.mark.parametrize("remember", [None, "session", "always"])
async def test_an_approval_is_for_one_call_unless_it_says_to_remember(remember: Any, tmp_path: Path) -> None:
    asked: list[tuple[Any, ...]] = []

    async def on_ask(request: Any) -> Any:
        asked.append((request.principal, request.tool))
        return Allow(remember=remember)

    path = tmp_path / "approvals.db"

    async def use() -> None:
        options: dict[str, Any] = {"policy": Policy(ask=["*"]), "on_ask": on_ask, "approval_store": path}
        async with open_hub(Server("k", transport=kitchen.build()), **options) as hub:
            for principal in ("ann", "ann", "bob"):
                assert await code(hub, "k__echo", {}, principal=principal) == "ok"

    await use()
    expected = [("ann", "echo"), ("ann", "echo"), ("bob", "echo")]
    assert asked == (expected if remember is None else expected[1:])
    asked.clear()
    await use()
    assert asked == {None: expected, "session": expected[1:], "always": []}[remember]
    if remember == "always":
        store = ApprovalStore(path)
        assert ("ann", "k", "echo") in store
        assert ("ann", "k", "add") not in store
        store.forget("ann", "k", "echo")
        asked.clear()
        await use()
        assert asked == [("ann", "echo")]


async def test_a_plain_approver_runs_in_a_thread_and_may_block_while_others_call() -> None:
    started, release = threading.Event(), threading.Event()
    threads: list[int] = []

    def on_ask(request: Any) -> Any:
        threads.append(threading.get_ident())
        started.set()
        release.wait(20)
        return Allow()

    policy = Policy(ask=["k/echo"], allow=["k/add"])
    async with open_hub(Server("k", transport=kitchen.build()), policy=policy, on_ask=on_ask) as hub:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(code, hub, "k__echo", {})
            assert await anyio.to_thread.run_sync(started.wait, 20)
            assert (await hub.call_tool("k__add", {"left": 1, "right": 2})).text == "3"
            release.set()
    assert threads[0] != threading.get_ident()


async def test_a_blocked_plain_approver_is_left_behind_at_the_deadline() -> None:
    release = threading.Event()

    def on_ask(request: Any) -> Any:
        release.wait(30)
        return Allow()

    server = kitchen.build()
    limits = Limits(approval_timeout=0.2)
    async with open_hub(Server("k", transport=server), policy=Policy(ask=["*"]), on_ask=on_ask, limits=limits) as hub:
        with anyio.fail_after(10), pytest.raises(errors.Denied, match="in time"):
            await hub.call_tool("k__echo")
        release.set()
    assert server.calls == []


async def test_a_policy_per_principal_decides_calls_and_lists_and_can_be_replaced() -> None:
    policies = {"ann": Policy(allow=["k/*"]), "bob": Policy(allow=["k/echo"])}
    async with open_hub(
        Server("k", transport=kitchen.build()), policy=lambda principal: policies.get(principal or "", Policy())
    ) as hub:
        assert "k__add" in await hub.list_tools(principal="ann")
        assert (await hub.list_tools(principal="bob")).names == ("k__echo",)
        assert (await hub.list_tools()).names == ()
        assert await code(hub, "k__add", {"left": 1, "right": 1}, principal="bob") == "denied"
        hub.set_policy(Policy(allow=["k/add"]))
        assert (await hub.list_tools(principal="bob")).names == ("k__add",)
        assert await code(hub, "k__echo", {}, principal="ann") == "denied"


def raises(*_: object) -> Any:
    raise KeyError("a secret of the host's")


async def is_async(*_: object) -> bool:
    return False


@pytest.mark.parametrize(
    "policy",
    [
        raises,
        is_async,
        lambda _: None,
        Policy(allow=["*"], deny=[rule("k/*", when=raises)]),
        Policy(allow=[rule("k/*", when=raises)]),
        Policy(allow=[rule("k/*", when=is_async)]),
        Policy(allow=["*"], ask=[rule("k/echo", when=raises)]),
    ],
)
@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited")
async def test_a_policy_that_fails_denies(policy: Any, caplog: pytest.LogCaptureFixture) -> None:
    server = kitchen.build()
    async with open_hub(Server("k", transport=server), policy=policy) as hub:
        with pytest.raises(errors.Denied) as denial:
            await hub.call_tool("k__echo", {"text": "x"})
        assert "secret" not in denial.value.message
        assert "operator" in denial.value.message
        await hub.list_tools()
        assert server.calls == []
    assert "policy" in caplog.text


async def test_what_a_server_says_of_its_own_tools_grants_nothing() -> None:
    server = kitchen.build()

    @server.tool(annotations={"readOnlyHint": True})  # pyright: ignore[reportArgumentType]
    async def innocent() -> str:
        return "deleted"

    reading = Policy(allow=[rule("k/*", annotations={"readOnlyHint": True})])
    async with open_hub(Server("k", transport=server), policy=reading) as hub:
        assert await code(hub, "k__innocent") == "denied"
    declared = Server("k", transport=kitchen.build(), annotations={"echo": {"readOnlyHint": True}})
    async with open_hub(declared, policy=reading) as hub:
        assert (await hub.list_tools()).names == ("k__echo",)
        assert await code(hub, "k__echo") == "ok"


async def test_rules_that_can_never_match_are_reported() -> None:
    policy = Policy(allow=["k/*", "s9/*"], deny=["k/delete_*"])
    async with open_hub(Server("k", transport=kitchen.build()), policy=policy) as hub:
        warnings = hub.status().warnings
        assert any("s9/*" in warning for warning in warnings)
        assert any("k/delete_*" in warning for warning in warnings)
        assert not any("'k/*'" in warning for warning in warnings)


async def test_hooks_run_in_order_and_hear_of_every_failure() -> None:
    heard: list[str] = []

    class Listener(Hook):
        def __init__(self, name: str) -> None:
            self.name = name

        def before(self, call: HookCall) -> Any:
            heard.append(f"{self.name} before")

        async def after(self, call: HookCall, result: ToolResult) -> Any:
            heard.append(f"{self.name} after")

        def on_error(self, call: HookCall, error: errors.ConduitError) -> Any:
            heard.append(f"{self.name} {error.code}")
            raise RuntimeError("even this changes nothing")

    hooks = [Listener("outer"), Listener("inner")]
    policy = Policy(allow=["*"], deny=["k/meta"])
    async with open_hub(Server("k", transport=kitchen.build()), hooks=hooks, policy=policy) as hub:
        assert await code(hub, "k__echo") == "ok"
        assert heard == ["outer before", "inner before", "inner after", "outer after"]
        heard.clear()
        assert await code(hub, "k__meta") == "denied"
        assert await code(hub, "k__add", {"left": "x"}) == "invalid_arguments"
        assert heard == ["inner denied", "outer denied", "outer before", "inner before",
                         "inner invalid_arguments", "outer invalid_arguments"]  # fmt: skip


async def test_an_error_result_is_not_checked_against_the_output_schema_and_a_bad_one_is_a_warning() -> None:
    server = kitchen.build()

    @server.tool()
    async def total(fail: bool) -> int:
        return 1

    class Lie(Hook):
        """Stands for a server that breaks its promise."""

        def before(self, call: HookCall) -> Any:
            content: tuple[ContentBlock, ...] = ({"type": "text", "text": "the words"},)
            return ToolResult(content=content, structured={"result": "x"}, is_error=call.arguments["fail"])

    async with open_hub(Server("k", transport=server), hooks=[Lie()]) as hub:
        failed = await hub.call_tool("k__total", {"fail": True})
        assert failed.is_error
        assert failed.warnings == ()
        wrong = await hub.call_tool("k__total", {"fail": False})
        assert wrong.text == failed.text == "the words"
        assert "result" in wrong.warnings[0]


async def test_a_schema_that_cannot_be_checked_is_a_warning_and_the_call_is_made() -> None:
    server = kitchen.build()
    server._tool_manager._tools["echo"].parameters["properties"]["text"]["pattern"] = "("  # pyright: ignore  # no public way to publish a broken schema
    async with open_hub(Server("k", transport=server)) as hub:
        result = await hub.call_tool("k__echo", {"text": "hi"})
        assert result.text == "hi"
        assert "not checked" in result.warnings[0]


async def test_what_is_no_json_is_refused_and_the_session_goes_on() -> None:
    async with open_hub(Server("k", transport=kitchen.build(), validate=False)) as hub:
        for bad in ("\ud800", object(), b"\xff"):
            assert await code(hub, "k__echo", {"text": bad}) == "invalid_arguments"
        assert await code(hub, "k__echo", {"text": "fine"}) == "ok"


async def test_no_secret_of_a_caller_is_in_any_text() -> None:
    canary = "s3cr3t-canary"
    server = kitchen.build()

    @server.tool()
    async def broken() -> CallToolResult:
        return CallToolResult(content=[TextContent(type="text", text="no")], is_error=True)

    def on_ask(request: Any) -> Any:
        assert request.assigns["token"] == canary
        assert canary not in repr(request)
        raise RuntimeError(canary)

    class Leaky(Hook):
        def before(self, call: HookCall) -> Any:
            assert canary not in repr(call)
            raise RuntimeError(canary)

    policy = Policy(ask=["k/echo"], allow=["k/add"])
    async with open_hub(Server("k", transport=server), policy=policy, on_ask=on_ask, hooks=[Leaky()]) as hub:
        for name in ("k__echo", "k__add"):
            with pytest.raises(errors.ConduitError) as caught:
                await hub.call_tool(name, {"left": 1, "right": 2}, assigns={"token": canary})
            assert canary not in str(caught.value)
        assert canary not in repr(hub.status())
