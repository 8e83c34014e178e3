"""Governed calls through a hub and a client, against real servers in this process and in others."""

from __future__ import annotations

import os
import signal
import time
from typing import Any

import anyio
import pytest

import kitchen
from conduit_actors import Client, Deny, Hook, HookCall, Hub, Limits, Policy, Server, ToolResult, errors
from support import FAST, alive, children, open_hub, stdio, until

pytestmark = pytest.mark.anyio


async def failing(hub: Hub | Client, name: str, arguments: Any = None, **options: Any) -> errors.ConduitError:
    with pytest.raises(errors.ConduitError) as caught:
        await hub.call_tool(name, arguments, **options)
    return caught.value


async def test_a_call_in_process_gives_the_tools_answer() -> None:
    async with open_hub(Server("k", transport=kitchen.build())) as hub:
        result = await hub.call_tool("k__add", {"left": 2, "right": 3})
        assert result.text == "5"
        assert result.structured == {"result": 5}
        assert (result.server_id, result.tool, result.attempts, result.is_error) == ("k", "add", 1, False)
        assert result.duration > 0


async def test_a_tools_own_failure_is_a_result() -> None:
    async with open_hub(Server("k", transport=kitchen.build())) as hub:
        result = await hub.call_tool("k__fail", {"text": "no flour"})
        assert result.is_error
        assert result.text == "no flour"


async def test_unknown_names_and_unfit_arguments_reach_no_server() -> None:
    server = kitchen.build()
    async with open_hub(Server("k", transport=server)) as hub:
        assert (await failing(hub, "k__nope")).code == "unknown_tool"
        error = await failing(hub, "k__add", {"left": "abc", "right": 1})
        assert error.code == "invalid_arguments"
        assert "left" in error.message
        assert (await failing(hub, "k__add", {"left": 1})).code == "invalid_arguments"
        assert server.calls == []


async def test_validation_can_be_left_to_the_server() -> None:
    async with open_hub(Server("k", transport=kitchen.build(), validate=False)) as hub:
        assert (await hub.call_tool("k__add", {"left": "abc", "right": 1})).is_error


async def test_without_a_policy_a_hub_asks_and_without_an_approver_that_is_a_denial_that_says_what_to_do() -> None:
    async with open_hub(Server("k", transport=kitchen.build()), policy=None) as hub:
        error = await failing(hub, "k__echo", {"text": "hi"})
        assert error.code == "denied"
        assert "on_ask" in error.message


async def test_a_client_has_its_servers_own_names_and_no_policy() -> None:
    async with Client("solo", Server("k", transport=kitchen.build())) as client:
        await client.wait_ready(timeout=10)
        assert "echo" in await client.list_tools()
        assert (await client.call_tool("echo", {"text": "hi"})).text == "hi"


async def test_the_approver_gets_the_exact_call_and_its_answer_decides() -> None:
    asked: list[Any] = []

    async def approver(request: Any) -> Any:
        asked.append(request)
        request.arguments["text"] = "changed"  # a copy: it changes nothing
        return Deny("not today", halt=True) if request.arguments.get("value") == 2 else kitchen_allow()

    policy = Policy(ask=["k/echo"])
    async with open_hub(Server("k", transport=kitchen.build()), policy=policy, on_ask=approver) as hub:
        result = await hub.call_tool("k__echo", {"text": "hi"}, principal="ann", call_id="c1", assigns={"x": 1})
        assert result.text == "hi"
        request = asked[0]
        assert (request.call_id, request.server_id, request.tool) == ("c1", "k", "echo")
        assert (request.principal, request.assigns) == ("ann", {"x": 1})
        error = await failing(hub, "k__echo", {"text": "hi", "value": 2})
        assert error.code == "denied"
        assert "not today" in error.message
        assert isinstance(error, errors.Denied)
        assert error.halt


def kitchen_allow() -> Any:
    from conduit_actors import Allow

    return Allow()


@pytest.mark.parametrize("kind", ["raises", "nonsense", "never"])
async def test_an_approver_that_fails_or_never_answers_is_a_denial(kind: str) -> None:
    async def approver(request: Any) -> Any:
        if kind == "raises":
            raise RuntimeError("secret detail")
        if kind == "never":
            await anyio.sleep_forever()
        return True

    server = kitchen.build()
    policy = Policy(ask=["*"])
    async with open_hub(Server("k", transport=server), policy=policy, on_ask=approver) as hub:
        error = await failing(hub, "k__echo", call_timeout=0.3 if kind == "never" else 10)
        assert error.code == "denied"
        assert "secret detail" not in error.message
        assert server.calls == []


async def test_a_pending_approval_does_not_hold_a_place() -> None:
    waiting = anyio.Event()
    go_on = anyio.Event()

    async def approver(request: Any) -> Any:
        waiting.set()
        await go_on.wait()
        return kitchen_allow()

    policy = Policy(ask=["k/add"], allow=["k/echo"])
    limits = Limits(max_concurrency=1)
    async with open_hub(Server("k", transport=kitchen.build()), policy=policy, on_ask=approver, limits=limits) as hub:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(hub.call_tool, "k__add", {"left": 1, "right": 1})
            await waiting.wait()
            with anyio.fail_after(5):
                assert (await hub.call_tool("k__echo", {"text": "hi"})).text == "hi"
            go_on.set()


async def test_hooks_change_answer_refuse_and_fail_only_their_own_call() -> None:
    class Meddler(Hook):
        async def before(self, call: HookCall) -> Any:
            match call.arguments.get("text"):
                case "change":
                    return call.with_arguments({"text": "changed"})
                case "answer":
                    return ToolResult(content=({"type": "text", "text": "from the hook"},))
                case "refuse":
                    raise errors.Denied("the hook says no")
                case "break":
                    raise KeyError("secret")
                case "invalid":
                    return call.with_arguments({"value": "x"})
            return None

        def after(self, call: HookCall, result: ToolResult) -> Any:
            if result.text == "break after":
                raise RuntimeError
            return None

    async with open_hub(Server("k", transport=kitchen.build()), hooks=[Meddler()]) as hub:
        assert (await hub.call_tool("k__echo", {"text": "change"})).text == "changed"
        assert (await hub.call_tool("k__echo", {"text": "answer"})).text == "from the hook"
        assert (await failing(hub, "k__echo", {"text": "refuse"})).code == "denied"
        broken = await failing(hub, "k__echo", {"text": "break"})
        assert broken.code == "hook_failed"
        assert "secret" not in broken.message
        assert (await failing(hub, "k__echo", {"text": "invalid"})).code == "invalid_arguments"
        assert (await failing(hub, "k__echo", {"text": "break after"})).code == "hook_failed"
        assert (await hub.call_tool("k__echo", {"text": "fine"})).text == "fine"


async def test_arguments_changed_by_a_hook_are_checked_by_the_policy_again() -> None:
    from conduit_actors import rule

    class Swap(Hook):
        def before(self, call: HookCall) -> Any:
            return call.with_arguments({"text": "forbidden"})

    policy = Policy(allow=["*"], deny=[rule("k/echo", when=lambda arguments: arguments.get("text") == "forbidden")])
    async with open_hub(Server("k", transport=kitchen.build()), policy=policy, hooks=[Swap()]) as hub:
        assert (await failing(hub, "k__echo", {"text": "fine"})).code == "denied"


async def test_nulls_and_json_text_are_repaired_only_where_the_schema_says_so() -> None:
    async with open_hub(Server("k", transport=kitchen.build())) as hub:
        assert (await hub.call_tool("k__echo", {"text": "null", "value": None})).text == "null"


async def test_the_deadline_ends_the_call_tells_the_server_and_leaves_the_session_usable() -> None:
    async with open_hub(stdio()) as hub:
        started = time.monotonic()
        error = await failing(hub, "kitchen__sleep", {"seconds": 60}, call_timeout=0.3)
        assert error.code == "timeout"
        assert time.monotonic() - started < 5
        with anyio.fail_after(10):
            while (await hub.call_tool("kitchen__cancellations")).text != "1":
                pass
        assert hub.status()["kitchen"].restarts == 0


async def test_a_cancelled_caller_cancels_the_call_and_the_session_goes_on() -> None:
    async with open_hub(stdio()) as hub:
        with anyio.move_on_after(0.3) as scope:
            await hub.call_tool("kitchen__sleep", {"seconds": 60})
        assert scope.cancelled_caught
        with anyio.fail_after(10):
            while (await hub.call_tool("kitchen__cancellations")).text != "1":
                pass
        assert hub.status()["kitchen"].restarts == 0


async def test_progress_keeps_a_request_alive_but_not_beyond_the_deadline() -> None:
    seen: list[float] = []
    async with open_hub(stdio()) as hub:
        result = await hub.call_tool(
            "kitchen__progress",
            {"steps": 8, "pause": 0.2},
            timeout=1.0,
            on_progress=lambda progress, total, message: seen.append(progress),
        )
        assert result.text == "done"
        assert seen == sorted(seen)
        assert len(seen) == 8
        error = await failing(hub, "kitchen__progress", {"steps": 100, "pause": 0.1}, timeout=1.0, call_timeout=1.5)
        assert error.code == "timeout"
        error = await failing(hub, "kitchen__sleep", {"seconds": 60}, timeout=0.2)
        assert error.code == "timeout"


async def test_tool_time_outs_go_by_the_most_specific_glob() -> None:
    server = stdio(timeout=0.3, tool_timeouts={"sl*": 30, "s*": 0.1})
    async with open_hub(server) as hub:
        assert (await hub.call_tool("kitchen__sleep", {"seconds": 0.6})).text == "slept"
        assert (await failing(hub, "kitchen__progress", {"steps": 1, "pause": 5})).code == "timeout"


async def test_killing_the_server_answers_all_twenty_calls_in_flight_and_the_next_call_works() -> None:
    async with open_hub(stdio(), stdio("other")) as hub:
        pid = hub.status()["kitchen"].pid
        assert pid is not None
        codes: list[str] = []

        async def call() -> None:
            codes.append((await failing(hub, "kitchen__sleep", {"seconds": 60})).code)

        async with anyio.create_task_group() as tasks:
            for _ in range(20):
                tasks.start_soon(call)
            await until(lambda: hub.status()["kitchen"].in_flight == 20)
            # All are sent once the server answers a later one.
            await hub.call_tool("kitchen__echo", {"text": "sent"})
            killed = time.monotonic()
            os.kill(pid, signal.SIGKILL)
        assert time.monotonic() - killed < 2
        assert codes == ["outcome_unknown"] * 20
        assert (await hub.call_tool("kitchen__echo", {"text": "again"})).text == "again"
        status = hub.status()
        assert status["kitchen"].restarts == 1
        assert "signal 9" in (status["kitchen"].last_error or "")
        assert status["other"].restarts == 0
        pids = [server.pid for server in status.values() if server.pid]
    assert not any(alive(pid) for pid in pids)


async def test_a_sent_call_is_repeated_only_where_the_host_says_that_it_is_safe() -> None:
    async with open_hub(stdio("once"), stdio("twice", retry=["die"])) as hub:
        assert (await failing(hub, "once__die")).code == "outcome_unknown"
        assert (await failing(hub, "twice__die")).code == "outcome_unknown"
        await until(lambda: all(server.state == "ready" for server in hub.status().values()))
        await until(lambda: hub.status()["once"].restarts == 1)
        await until(lambda: hub.status()["twice"].restarts == 2)


async def test_calls_of_one_server_run_at_once_and_each_gets_its_own_answer() -> None:
    answers: dict[int, str] = {}
    async with open_hub(stdio()) as hub:

        async def call(number: int) -> None:
            result = await hub.call_tool("kitchen__sleep", {"seconds": (60 - number) % 7 / 100, "text": str(number)})
            answers[number] = result.text

        async with anyio.create_task_group() as tasks:
            for number in range(60):
                tasks.start_soon(call, number)
    assert answers == {number: str(number) for number in range(60)}


async def test_limits_queue_and_refuse() -> None:
    limits = Limits(max_concurrency=2, queue=1)
    async with open_hub(Server("k", transport=kitchen.build()), limits=limits) as hub:
        async with anyio.create_task_group() as tasks:
            for _ in range(3):
                tasks.start_soon(hub.call_tool, "k__sleep", {"seconds": 0.5})
            await until(lambda: hub.status()["k"].in_flight == 2)
            assert (await failing(hub, "k__echo")).code == "overloaded"
        assert (await hub.call_tool("k__echo", {"text": "free"})).text == "free"


async def test_one_principals_crowd_delays_anothers_first_call_by_one_place_at_most() -> None:
    order: list[str] = []
    async with open_hub(Server("k", transport=kitchen.build()), limits=Limits(max_concurrency=1)) as hub:

        async def call(principal: str) -> None:
            await hub.call_tool("k__sleep", {"seconds": 0.01}, principal=principal)
            order.append(principal)

        async with anyio.create_task_group() as tasks:
            for _ in range(30):
                tasks.start_soon(call, "crowd")
            await until(lambda: hub.status()["k"].in_flight == 1)
            tasks.start_soon(call, "single")
    assert order.index("single") <= 3


async def test_a_large_result_keeps_head_and_tail_and_the_host_gets_all_of_it() -> None:
    async with open_hub(Server("k", transport=kitchen.build()), limits=Limits(max_result_chars=1_000)) as hub:
        result = await hub.call_tool("k__flood", {"characters": 50_000})
        assert result.truncated
        assert len(result.text) <= 1_000
        assert result.text.startswith("HEAD")
        assert result.text.endswith("TAIL")
        assert "50000" in result.text
        assert len(result.full.text) == 50_000
        raw = await hub.call_tool("k__flood", {"characters": 50_000}, shape=None)
        assert len(raw.text) == 50_000


async def test_meta_reaches_the_server_and_assigns_do_not() -> None:
    async with open_hub(stdio()) as hub:
        result = await hub.call_tool("kitchen__meta", meta={"acme/trace": "42"}, assigns={"secret": "s3cr3t"})
        assert "acme/trace" in result.text
        assert "s3cr3t" not in result.text


async def test_nothing_is_left_running_after_the_hub_is_closed() -> None:
    before = set(children())
    async with open_hub(stdio("a"), stdio("b")) as hub:
        pids = [server.pid for server in hub.status().values()]
        assert len(set(children()) - before) == 2
    assert not any(alive(pid or 0) for pid in pids)
    assert set(children()) <= before


async def test_a_hub_that_is_closed_answers_its_calls_in_flight() -> None:
    codes: list[str] = []
    hub = Hub("closing", servers=[stdio()], policy=Policy(allow=["*"]))
    await hub.__aenter__()
    await hub.wait_ready(timeout=20)

    async def call() -> None:
        codes.append((await failing(hub, "kitchen__sleep", {"seconds": 60})).code)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(call)
        await until(lambda: hub.status()["kitchen"].in_flight == 1)
        with anyio.fail_after(15):
            await hub.close()
    assert codes == ["cancelled"]
    assert (await failing(hub, "kitchen__echo")).code == "configuration"


async def test_a_parked_server_fails_at_once_and_is_probed_until_it_comes_back(tmp_path: Any) -> None:
    script = tmp_path / "server.py"
    server = Server("late", command="python3", args=[str(script)], restart=FAST)
    async with open_hub(server) as hub:
        assert hub.status()["late"].state == "parked"
        started = time.monotonic()
        error = await failing(hub, "late__echo", {"text": "x"})
        assert error.code == "server_unavailable"
        assert "late" in error.message
        assert time.monotonic() - started < 2
        import sys

        script.write_text(
            f"import subprocess, sys\nsys.exit(subprocess.call([{sys.executable!r}, {str(kitchen.__file__)!r}]))\n"
        )
        await until(lambda: hub.status()["late"].state == "ready")
        assert (await hub.call_tool("late__echo", {"text": "here"})).text == "here"


async def test_restart_server_unparks_and_servers_come_and_go_at_run_time() -> None:
    async with open_hub(Server("bad", command="no-such-command-here", restart=FAST), stdio()) as hub:
        assert hub.status()["bad"].state == "parked"
        assert "no-such-command-here" in (hub.status()["bad"].last_error or "")
        assert all(tool.server_id == "kitchen" for tool in await hub.list_tools())
        await hub.restart_server("bad")
        await hub.wait_ready(timeout=10)
        assert hub.status()["bad"].state == "parked"
        await hub.remove_server("bad")
        assert "bad" not in hub.status()
        await hub.add_server(Server("k", transport=kitchen.build()))
        await hub.wait_ready(timeout=10)
        assert (await hub.call_tool("k__echo", {"text": "hi"})).text == "hi"
        with pytest.raises(errors.ConfigurationError):
            await hub.add_server(Server("k", transport=kitchen.build()))
        with pytest.raises(errors.ConfigurationError):
            await hub.remove_server("nobody")
        first = hub.status()["kitchen"].pid
        await hub.restart_server("kitchen")
        await hub.wait_ready(timeout=20)
        assert hub.status()["kitchen"].pid != first
        assert not alive(first or 0)


async def test_a_lazy_server_starts_when_it_is_needed_and_stops_when_it_is_not() -> None:
    async with open_hub(stdio("lazy", lazy=True, idle_timeout=0.3)) as hub:
        assert hub.status()["lazy"].state == "idle"
        assert (await hub.call_tool("lazy__echo", {"text": "woken"})).text == "woken"
        pid = hub.status()["lazy"].pid
        await until(lambda: hub.status()["lazy"].state == "idle")
        await until(lambda: not alive(pid or 0))
        assert "lazy__echo" in await hub.list_tools()
        assert (await hub.call_tool("lazy__echo", {"text": "again"})).text == "again"


async def test_each_principal_can_have_a_connection_of_its_own() -> None:
    async with open_hub(stdio("own", per_principal=True)) as hub:
        ann = (await hub.call_tool("own__pid", principal="ann")).text
        bob = (await hub.call_tool("own__pid", principal="bob")).text
        assert ann != bob
        assert (await hub.call_tool("own__pid", principal="ann")).text == ann
        assert {tenant.principal for tenant in hub.status().tenants} == {"ann", "bob"}


async def test_use_from_another_loop_raises_at_once() -> None:
    async with open_hub(Server("k", transport=kitchen.build())) as hub:

        def elsewhere() -> None:
            anyio.run(hub.call_tool, "k__echo", {"text": "x"})

        with pytest.raises(RuntimeError, match="another event loop"):
            await anyio.to_thread.run_sync(elsewhere)


async def test_a_hub_opened_in_one_task_is_closed_in_another() -> None:
    hub = Hub("tasks", servers=[stdio()], policy=Policy(allow=["*"]))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(hub.__aenter__)
    await hub.wait_ready(timeout=20)
    pid = hub.status()["kitchen"].pid
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(hub.close)
    assert not alive(pid or 0)
