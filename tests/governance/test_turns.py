"""The ways in which a turn goes wrong, for each provider: n calls in, n answers out, in order, and nothing raised."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from mcp.shared.exceptions import MCPError

import kitchen
from conduit_actors import (
    Allow,
    Deny,
    Hook,
    HookCall,
    Limits,
    Policy,
    RestartPolicy,
    Server,
    ToolResult,
    adapters,
    rule,
)
from support import open_hub, stdio, until
from turns import APIS, Call, read, turn

pytestmark = pytest.mark.anyio

DEEP = '{"text": ' + '{"a":' * 5_000 + "1" + "}" * 5_000 + "}"

WAYS: list[tuple[str, str, Any, str]] = [
    ("it works", "k__echo", {"text": "fine"}, "ok"),
    ("an unknown name", "k__nope", {}, "unknown_tool"),
    ("an unknown server", "nope__echo", {}, "unknown_tool"),
    ("JSON that is cut off", "k__echo", '{"text": ', "invalid_arguments"),
    ("JSON that is enormous and broken", "k__echo", "{" + "x" * 1_000_000, "invalid_arguments"),
    ("a list", "k__echo", [1, 2], "invalid_arguments"),
    ("a number", "k__echo", 5, "invalid_arguments"),
    ("a key twice", "k__echo", '{"text": "a", "text": "b"}', "invalid_arguments"),
    ("no JSON value", "k__echo", '{"text": NaN}', "invalid_arguments"),
    ("half a surrogate pair", "k__echo", '{"text": "\\ud800"}', "invalid_arguments"),
    ("endless nesting", "k__echo", DEEP, "invalid_arguments"),
    ("a wrong type", "k__add", {"left": "x", "right": 2}, "invalid_arguments"),
    ("a missing argument", "k__add", {"left": 1}, "invalid_arguments"),
    ("the policy denies", "k__meta", {}, "denied"),
    ("a rule of the policy breaks", "k__pid", {"break": "it"}, "denied"),
    ("the approver says no", "ask__echo", {"text": "no"}, "denied"),
    ("the approver raises", "ask__echo", {"text": "raise"}, "denied"),
    ("the approver answers nonsense", "ask__echo", {"text": "nonsense"}, "denied"),
    ("the approver never answers", "ask__echo", {"text": "never"}, "denied"),
    ("a hook raises before", "k__echo", {"text": "raise before"}, "hook_failed"),
    ("a hook answers nonsense", "k__echo", {"text": "nonsense before"}, "hook_failed"),
    ("a hook refuses", "k__echo", {"text": "refuse"}, "denied"),
    ("a hook raises after", "k__echo", {"text": "raise after"}, "hook_failed"),
    ("the request times out", "k__sleep", {"seconds": 60}, "timeout"),
    ("the server answers with an error", "k__refuse", {}, "protocol_error"),
    ("the server dies in the call", "dies__die", {}, "outcome_unknown"),
    ("the server is parked", "parked__echo", {}, "server_unavailable"),
    ("the server is gone", "gone__echo", {}, "server_unavailable"),
    ("the tool says that it failed", "k__fail", {}, "ok"),
    ("the tool raises without a word", "k__raise", {}, "ok"),
    ("the tool says nothing", "k__nothing", {}, "ok"),
    ("the tool says far too much", "k__flood", {"characters": 3_000_000}, "ok"),
    ("it works still", "k__add", {"left": 1, "right": 2}, "ok"),
]


class Meddler(Hook):
    async def before(self, call: HookCall) -> Any:
        match call.arguments.get("text"):
            case "raise before":
                raise Exception
            case "nonsense before":
                return 5
            case "refuse":
                return self.refuse()
            case _:
                return None

    def after(self, call: HookCall, result: ToolResult) -> Any:
        if call.arguments.get("text") == "raise after":
            raise Exception

    def refuse(self) -> Any:
        from conduit_actors.errors import Denied

        raise Denied


async def approver(request: Any) -> Any:
    match request.arguments.get("text"):
        case "raise":
            raise Exception
        case "nonsense":
            return "yes"
        case "never":
            return await anyio.sleep_forever()
        case _:
            return Deny()


def breaks(arguments: Any) -> bool:
    raise KeyError(arguments["break"])


@pytest.mark.parametrize(("provider", "api"), APIS)
async def test_every_way_in_which_a_turn_goes_wrong_has_its_answer(provider: Any, api: Any) -> None:
    server = kitchen.build()

    @server.tool()
    async def refuse() -> str:
        raise MCPError(-32_000, "not in the mood")

    @server.tool(name="raise")
    async def raise_() -> str:
        raise ValueError

    servers = [
        Server("k", transport=server, tool_timeouts={"sleep": 0.3}),
        Server("ask", transport=kitchen.build()),
        Server("gone", transport=kitchen.build()),
        stdio("dies"),
        stdio("parked", restart=RestartPolicy(max_restarts=0, probe_interval=600)),
    ]
    policy = Policy(allow=["*"], ask=["ask/echo"], deny=["k/meta", rule("k/pid", when=breaks)])
    limits = Limits(approval_timeout=0.3, max_result_chars=20_000)
    async with open_hub(*servers, policy=policy, on_ask=approver, hooks=[Meddler()], limits=limits) as hub:
        listing = await adapters.tools(hub, provider, api=api)
        # The model saw these two servers' tools before they went away.
        await adapters.execute_tool_calls(hub, provider, turn(provider, api, [("x", "parked__die", {})]), api=api)
        await until(lambda: hub.status()["parked"].state == "parked")
        await hub.remove_server("gone")

        calls: list[Call] = [(f"call_{number}", name, given) for number, (_, name, given, _) in enumerate(WAYS)]
        with anyio.fail_after(50):
            results = await listing.execute(turn(provider, api, calls), call_timeout=30)

        codes = [getattr(outcome, "code", "ok") for outcome in results.outcomes]
        assert dict(zip([way for way, *_ in WAYS], codes, strict=True)) == {way: code for way, _, _, code in WAYS}
        answers = [read(answer) for answer in results.results]
        assert [call_id for call_id, _, _ in answers] == [call_id for call_id, _, _ in calls]
        for (way, _, _, code), (_, text, is_error) in zip(WAYS, answers, strict=True):
            assert text.strip(), way
            assert len(text) < 25_000, way
            assert is_error == (code != "ok" or way in _FAILED), way
        assert not results.halted


_FAILED = ("the tool says that it failed", "the tool raises without a word")


@pytest.mark.parametrize(("provider", "api"), APIS)
async def test_overload_refuses_what_does_not_fit_and_the_rest_runs(provider: Any, api: Any) -> None:
    async with open_hub(Server("k", transport=kitchen.build()), limits=Limits(max_concurrency=1, queue=1)) as hub:
        calls: list[Call] = [(f"c{number}", "k__echo", {"text": str(number)}) for number in range(5)]
        results = await adapters.execute_tool_calls(hub, provider, turn(provider, api, calls), api=api)
        codes = [getattr(outcome, "code", "ok") for outcome in results.outcomes]
        assert sorted(codes) == ["ok"] * 2 + ["overloaded"] * 3
        assert [read(answer)[0] for answer in results.results] == [call_id for call_id, _, _ in calls]


@pytest.mark.parametrize(("provider", "api"), APIS)
async def test_a_hub_that_closes_in_the_middle_answers_the_turn(provider: Any, api: Any) -> None:
    found: list[adapters.ToolCallResults] = []
    async with anyio.create_task_group() as tasks:
        async with open_hub(Server("k", transport=kitchen.build())) as hub:

            async def run() -> None:
                calls: list[Call] = [(f"c{number}", "k__sleep", {"seconds": 60}) for number in range(3)]
                found.append(await adapters.execute_tool_calls(hub, provider, turn(provider, api, calls), api=api))

            tasks.start_soon(run)
            await until(lambda: hub.status()["k"].in_flight == 3)
        with anyio.move_on_after(10):
            await until(lambda: bool(found))
        tasks.cancel_scope.cancel()
    assert [read(answer)[0] for answer in found[0].results] == ["c0", "c1", "c2"]
    assert all(getattr(outcome, "code", "ok") in ("cancelled", "outcome_unknown") for outcome in found[0].outcomes)


async def test_many_approvals_at_once_do_not_wait_for_each_other() -> None:
    waiting = 0
    all_there = anyio.Event()

    async def on_ask(request: Any) -> Any:
        nonlocal waiting
        waiting += 1
        if waiting == 50:
            all_there.set()
        await all_there.wait()
        return Allow()

    async with open_hub(Server("k", transport=kitchen.build()), policy=Policy(ask=["*"]), on_ask=on_ask) as hub:
        calls: list[Call] = [(f"c{number}", "k__echo", {"text": str(number)}) for number in range(50)]
        with anyio.fail_after(20):
            results = await adapters.execute_tool_calls(hub, "anthropic", turn("anthropic", None, calls))
        assert [read(answer)[1] for answer in results.results] == [str(number) for number in range(50)]
