"""The tour: every step really happens, is checked and is printed; one that does not do what it says fails the tour."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable
from typing import Any

import anyio
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from rich.console import Console
from rich.table import Table

from conduit_actors import Allow, Hub, Policy, RestartPolicy, Server, adapters
from conduit_actors.approvals import ApprovalRequest
from conduit_actors.demo import turns
from conduit_actors.demo.spans import draw_trace
from conduit_actors.errors import ConduitError
from conduit_actors.results import ToolResult

PROVIDERS: list[tuple[str, str, str | None, Callable[[], dict[str, Any]]]] = [
    ("Anthropic Messages", "anthropic", None, turns.anthropic),
    ("OpenAI Chat Completions", "openai", "chat", turns.openai_chat),
    ("OpenAI Responses", "openai", "responses", turns.openai_responses),
    ("Gemini generateContent", "gemini", None, turns.gemini),
]


class StepFailed(Exception):
    """A step of the tour did not do what it says."""


def _check(condition: bool, what: str) -> None:
    if not condition:
        raise StepFailed(what)


async def run_tour(console: Console) -> None:
    """Run all steps in order.

    Raises:
        StepFailed: a step's outcome was not the promised one.
    """
    exporter = _trace_in_memory()
    asked: list[str] = []

    async def approver(request: ApprovalRequest) -> Allow:
        asked.append(request.tool)
        return Allow()

    python = [sys.executable, "-m"]
    restart = RestartPolicy(initial=0.2, jitter="none")
    servers = [
        Server(name, command=python[0], args=[python[1], f"conduit_actors.demo.{name}"], restart=restart)
        for name in ("library", "workshop")
    ]
    policy = Policy(allow=["library/*", "workshop/list_*"], ask=["workshop/order_*"], deny=["*/burn_*"])
    async with Hub("demo", servers=servers, policy=policy, on_ask=approver) as hub:
        await _show_servers(console, hub)
        await _show_definitions(console, hub)
        for title, provider, api, turn in PROVIDERS:
            await _run_turn(console, hub, title, provider, api, turn(), asked)
        await _kill_a_server(console, hub)
        exporter.clear()
        result = await hub.call_tool("library__find_book", {"word": "hoare"})
        _check("Hoare" in result.text, "the call after the restart gave its answer")
    console.rule("6. One call's span tree", style="dim")
    _check(draw_trace(console, exporter.get_finished_spans()), "the call left one span tree")
    console.print("\nEvery step did what it says.")


def _trace_in_memory() -> InMemorySpanExporter:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    return exporter


async def _show_servers(console: Console, hub: Hub) -> None:
    console.rule("1. Two servers, each a child process under its own supervisor", style="dim")
    status = await hub.wait_ready(timeout=15)
    table = Table("server", "state", "process", "tools", box=None, pad_edge=False)
    for server in status.values():
        table.add_row(server.id, server.state, str(server.pid), str(server.tools))
    console.print(table)
    _check(status.ready, "both servers are ready")


async def _show_definitions(console: Console, hub: Hub) -> None:
    console.rule("2. One tool, four provider shapes", style="dim")
    for title, provider, api, _ in PROVIDERS:
        listing = await adapters.tools(hub, provider, api=api)  # pyright: ignore[reportArgumentType]
        names = {json.dumps(tool) for tool in listing.tools}
        _check(any("library__find_book" in name for name in names), f"{title} lists find_book")
        _check(not any("burn_book" in name for name in names), f"{title} does not offer what the policy denies")
        shown = next(tool for tool in listing.tools if "order_part" in json.dumps(tool))
        console.print(f"[bold]{title}[/bold] ({len(listing.tools)} tools)")
        console.print(f"  {_abridged(shown)}", soft_wrap=True)


def _abridged(definition: dict[str, Any], limit: int = 230) -> str:
    text = json.dumps(definition)
    return text if len(text) <= limit else f"{text[:limit]} ..."


async def _run_turn(
    console: Console, hub: Hub, title: str, provider: str, api: str | None, response: dict[str, Any], asked: list[str]
) -> None:
    if title == PROVIDERS[0][0]:
        console.rule("3. A model turn of five parallel calls, answered in order, for each provider", style="dim")
    asked.clear()
    started = time.monotonic()
    results = await adapters.execute_tool_calls(
        hub,
        provider,  # pyright: ignore[reportArgumentType]
        response,
        api=api,  # pyright: ignore[reportArgumentType]
        call_timeout=1.0,
    )
    seconds = time.monotonic() - started
    table = Table("call", "tool", "outcome", "answer to the model", box=None, pad_edge=False)
    _check(len(results.results) == len(turns.CALLS), f"{title}: every call is answered")
    for (call_id, name, _, promised), outcome, answer in zip(
        turns.CALLS, results.outcomes, results.results, strict=True
    ):
        found = outcome.code if isinstance(outcome, ConduitError) else "ok"
        wanted = "ok" if promised == "approved" else promised
        _check(found == wanted, f"{title}: {name} ends as {wanted}, not {found}")
        _check(call_id in json.dumps(answer), f"{title}: the answer to {call_id} carries its id")
        table.add_row(call_id, name, promised, _abridged(answer, 110))
    _check(asked == ["order_part"], f"{title}: the approver was asked once")
    console.print(f"[bold]{title}[/bold] ({seconds:.2f} s)")
    console.print(table)


async def _kill_a_server(console: Console, hub: Hub) -> None:
    console.rule("4. The library's process is killed while calls are in flight", style="dim")
    pid = hub.status()["library"].pid
    _check(pid is not None, "the library has a process")
    outcomes: list[str] = []

    async def slow_call() -> None:
        outcomes.append(await _outcome(hub, "library__count_pages", {"seconds": 60}))

    killed = 0.0
    async with anyio.create_task_group() as tasks:
        for _ in range(3):
            tasks.start_soon(slow_call)
        with anyio.fail_after(5):
            while hub.status()["library"].in_flight < 3:  # noqa: ASYNC110 (there is no event for "is in flight")
                await anyio.sleep(0.01)
        # All three were sent once the server has answered a later one. A call that was not sent yet would wait for the
        # server to come back, and run then.
        _check(await _outcome(hub, "library__find_book", {"word": "actors"}) == "ok", "the library answers")
        console.print(f"kill -9 {pid}, with 3 calls in flight")
        killed = time.monotonic()
        os.kill(pid or 0, signal.SIGKILL)
    seconds = time.monotonic() - killed
    console.print(f"all 3 answered after {seconds:.2f} s: {', '.join(outcomes)}")
    _check(outcomes == ["outcome_unknown"] * 3 and seconds < 2, "calls to the dead server fail fast")
    other = await _outcome(hub, "workshop__list_orders", {})
    console.print(f"the workshop goes on as if nothing had happened: {other}")
    _check(other == "ok", "the other server is not touched")
    console.rule("5. Its supervisor brings it back", style="dim")
    status = (await hub.wait_ready(timeout=10))["library"]
    console.print(f"library: {status.state} again after restart {status.restarts}, process {status.pid}")
    console.print(f"why it went down: {status.last_error}")
    _check(status.state == "ready" and status.restarts == 1 and status.pid != pid, "the server is back")


async def _outcome(hub: Hub, name: str, arguments: dict[str, Any]) -> str:
    try:
        result: ToolResult = await hub.call_tool(name, arguments, call_timeout=60)
    except ConduitError as error:
        return error.code
    return "tool error" if result.is_error else "ok"
