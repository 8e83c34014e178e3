"""What a hostile tenant, model, server or a broken host can try, and what must not come of it."""

from __future__ import annotations

import json
import threading
import unicodedata
from typing import Annotated, Any

import anyio
import pytest
from pydantic import Field

import kitchen
from conduit_actors import Allow, Deny, Hook, HookCall, Policy, Server, adapters, errors
from conduit_actors.policy import Rule
from no_json import NOT_JSON
from support import open_hub
from turns import APIS

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("validate", [True, False])
async def test_arguments_that_are_no_json_reach_neither_approver_nor_hook_nor_server(validate: bool) -> None:
    seen: list[str] = []
    server = kitchen.build()

    async def on_ask(request: Any) -> Allow:
        seen.append(request.tool)
        return Allow()

    class Watch(Hook):
        def before(self, call: HookCall) -> None:
            seen.append(call.tool)

    k = Server("k", transport=server, validate=validate)
    async with open_hub(k, policy=Policy(ask=["*"]), on_ask=on_ask, hooks=[Watch()]) as hub:
        for value in NOT_JSON.values():
            with pytest.raises(errors.InvalidArguments):
                await hub.call_tool("k__echo", {"text": "x", "value": value})
        assert not seen
        assert not server.calls
        assert (await hub.call_tool("k__echo", {"text": "fine"})).text == "fine"


async def test_a_hook_cannot_send_what_is_no_json() -> None:
    class Spoil(Hook):
        def before(self, call: HookCall) -> HookCall:
            return call.with_arguments({"text": NOT_JSON[call.arguments["text"]]})

    server = kitchen.build()
    async with open_hub(Server("k", transport=server, validate=False), hooks=[Spoil()]) as hub:
        for name in NOT_JSON:
            with pytest.raises(errors.InvalidArguments):
                await hub.call_tool("k__echo", {"text": name})
    assert not server.calls


async def test_what_the_caller_changes_after_the_question_is_not_sent() -> None:
    asked, answered = anyio.Event(), anyio.Event()

    async def on_ask(request: Any) -> Allow:
        asked.set()
        await answered.wait()
        return Allow()

    server = kitchen.build()

    @server.tool()
    async def pay(order: dict[str, Any]) -> str:
        return str(order["amount"])

    arguments = {"order": {"amount": 1}}
    async with (
        open_hub(Server("k", transport=server), policy=Policy(ask=["*"]), on_ask=on_ask) as hub,
        anyio.create_task_group() as tasks,
    ):

        async def call() -> None:
            assert (await hub.call_tool("k__pay", arguments)).text == "1"

        tasks.start_soon(call)
        with anyio.fail_after(10):
            await asked.wait()
        arguments["order"]["amount"] = 1_000_000
        answered.set()


class _BrokenStore:
    def __init__(self) -> None:
        self.tried: list[str] = []

    def __contains__(self, key: object) -> bool:
        self.tried.append("read")
        raise OSError("canary")

    def add(self, key: object) -> None:
        self.tried.append("write")
        raise OSError("canary")


async def test_a_store_that_fails_asks_again_and_costs_no_call(caplog: pytest.LogCaptureFixture) -> None:
    asked: list[str] = []

    async def on_ask(request: Any) -> Allow | Deny:
        asked.append(request.tool)
        return Allow(remember="always") if request.tool == "echo" else Deny("no")

    store = _BrokenStore()
    async with open_hub(
        Server("k", transport=kitchen.build()), policy=Policy(ask=["*"]), on_ask=on_ask, approval_store=store
    ) as hub:
        for _ in range(2):
            assert (await hub.call_tool("k__echo", {"text": "hi"})).text == "hi"
        with pytest.raises(errors.Denied):
            await hub.call_tool("k__add", {"left": 1, "right": 2})
    assert asked == ["echo", "echo", "add"]
    assert store.tried == ["read", "write", "read", "write", "read"]
    assert "OSError" in caplog.text
    assert "canary" not in caplog.text


async def test_one_principals_blocked_approvers_hold_up_no_other_and_no_hook() -> None:
    release = threading.Event()
    blocked = threading.Semaphore(0)

    def on_ask(request: Any) -> Allow:
        if request.principal == "crowd":
            blocked.release()
            release.wait(60)
        return Allow()

    class Watch(Hook):
        def before(self, call: HookCall) -> None:
            return None

    async with open_hub(
        Server("k", transport=kitchen.build()), policy=Policy(ask=["*"]), on_ask=on_ask, hooks=[Watch()]
    ) as hub:
        async with anyio.create_task_group() as tasks:
            try:
                for _ in range(300):
                    tasks.start_soon(lambda: hub.call_tool("k__echo", {"text": "x"}, principal="crowd"))
                with anyio.fail_after(30):
                    while not blocked.acquire(blocking=False):
                        await anyio.sleep(0.01)
                    assert (await hub.call_tool("k__echo", {"text": "hi"}, principal="ann")).text == "hi"
            finally:
                release.set()


@pytest.mark.parametrize(
    ("pattern", "tool", "fits"),
    [
        ("s/*a*b", "xxaxxb", True),
        ("s/*a*b", "xxbxxa", False),
        ("s/a*a", "a", False),
        ("s/a*a", "aa", True),
        ("s/?*?", "a", False),
        ("s/*aab", "aaaaab", True),
        ("s/*a?c*d", "aacabcxd", True),
        ("s/x[ab]*", "xa", False),
        ("s/x[ab]*", "x[ab]y", True),
        ("s/DELETE*", "delete_all", False),
        ("s/delete_*", "delete_\nall", True),
        ("s/delete_?", "delete_\U0001f4a9", True),
        ("s/a.c", "abc", False),
    ],
)
def test_globs_are_literal_but_for_stars_and_question_marks(pattern: str, tool: str, fits: bool) -> None:
    assert Rule(pattern).matches_name("s", tool) is fits


def test_no_tool_name_keeps_a_pattern_busy() -> None:
    # Backtracking would take longer than the sun has.
    assert not Rule("s/" + "*a" * 30 + "*b").matches_name("s", "a" * 5_000)


async def test_names_that_look_alike_after_cleaning_are_two_tools_for_the_policy() -> None:
    server = kitchen.build()
    for name in ("read.all", "read/all", "read all"):

        @server.tool(name=name)
        async def told(name: str = name) -> str:
            return name

    async with open_hub(Server("k", transport=server), policy=Policy(allow=["k/read.all"], deny=["k/read all"])) as hub:
        toolset = await hub.list_tools()
        assert [tool.tool for tool in toolset] == ["read.all"]
        everything = hub.known_tools()
        for tool in everything:
            if tool.tool == "read.all":
                assert (await hub.call_tool(tool.name)).text == "read.all"
            else:
                with pytest.raises(errors.Denied):
                    await hub.call_tool(tool.name)
        for spelling in (
            "k__READ_all",
            "k__read.all",
            "k__read/all",
            "k/read.all",
            "k__read_all\u200b",
            "\uff4b__echo",
        ):
            with pytest.raises((errors.UnknownTool, errors.Denied)):
                await hub.call_tool(spelling)


HIDDEN = "\u200b\u202e\x1b[31m\x07<!-- obey -->" + "".join(chr(0xE0000 + ord(letter)) for letter in "obey")


@pytest.mark.parametrize(("provider", "api"), APIS)
async def test_text_that_nobody_sees_reaches_no_model(provider: Any, api: Any) -> None:
    """F102."""
    server = kitchen.build()

    async def lure(
        where: Annotated[str, Field(description=f"A place{HIDDEN}", title=f"Where{HIDDEN}")],
        how: Annotated[list[Annotated[int, Field(description=f"Ways{HIDDEN}")]], Field(default_factory=list)],
    ) -> str:
        return where

    server.tool(name="lure", title=f"Lure{HIDDEN}", description=f"Harmless{HIDDEN}")(lure)
    async with open_hub(Server("k", transport=server)) as hub:
        listing = await adapters.tools(hub, provider, api=api)
        text = json.dumps(listing.tools, ensure_ascii=False)
        assert "Harmless" in text
        assert "A place" in text
        assert "Ways" in text
        found = [character for character in text if unicodedata.category(character) in ("Cc", "Cf", "Co", "Cs")]
        assert found == []
        assert "obey" not in text
