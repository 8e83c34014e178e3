"""The ``conduit-actors`` command: ``demo``, ``tools`` and ``call``.

Results go to stdout, everything else to stderr. The exit status is 0 only if all went well: 1 for a server or a call
that failed, 2 for a mistake in the command or the configuration. Failures are one line each, never a traceback.
"""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, NoReturn

import anyio
import typer
from rich.console import Console

from conduit_actors import Hub, Limits, Policy, adapters
from conduit_actors.approvals import Allow, ApprovalRequest, Deny
from conduit_actors.config_file import load_servers
from conduit_actors.errors import ConduitError, ConfigurationError
from conduit_actors.results import ToolResult
from conduit_actors.server import RestartPolicy, Server

app = typer.Typer(add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False, help=__doc__)


class Provider(StrEnum):
    """A provider's API, by the name that is common for it."""

    anthropic = "anthropic"
    openai = "openai"
    openai_chat = "openai-chat"
    openai_responses = "openai-responses"
    gemini = "gemini"
    bedrock = "bedrock"

    def parts(self) -> tuple[str, str | None]:
        """The adapters' `provider` and `api`; plain "openai" is the Responses API."""
        if self is Provider.openai:
            return "openai", "responses"
        name, _, api = self.value.partition("-")
        return name, api or None


Config = Annotated[Path, typer.Option("--config", "-c", help="An mcpServers JSON file, as desktop clients use it.")]


@app.command()
def demo() -> None:
    """Show the library at work: two supervised servers, four providers, a kill, a restart, a trace. No network."""
    from conduit_actors.demo.tour import StepFailed, run_tour

    console = Console(highlight=False, width=None if sys.stdout.isatty() else 120)
    try:
        anyio.run(run_tour, console)
    except StepFailed as failure:
        _fail(f"the demo failed: {failure}", 1)


@app.command()
def tools(
    config: Config,
    provider: Annotated[Provider, typer.Option("--provider", "-p", help="The shape of the definitions.")],
    wait: Annotated[float, typer.Option(help="Seconds to wait for the servers.")] = 30.0,
) -> None:
    """Print the servers' tools as one JSON list of a provider's tool definitions."""

    async def run() -> bool:
        servers = _load(config)
        async with Hub("cli", servers=servers, policy=Policy(allow=["*"])) as hub:
            problems = await _wait(hub, wait)
            name, api = provider.parts()
            listing = await adapters.tools(hub, name, api=api)  # pyright: ignore[reportArgumentType]
            for excluded in listing.excluded:
                _complain(f"left out: {excluded}")
            print(json.dumps(listing.tools, indent=2, ensure_ascii=False))  # noqa: T201 (the command's output)
            return not problems

    _run(run)


@app.command()
def call(
    tool: Annotated[str, typer.Argument(help="The exposed name, server__tool.")],
    arguments: Annotated[str, typer.Argument(help="A JSON object.")] = "{}",
    config: Annotated[Path, typer.Option("--config", "-c", help="An mcpServers JSON file.")] = Path("mcp.json"),
    allow: Annotated[list[str] | None, typer.Option(help="Run these without asking: globs on server/tool.")] = None,
    deny: Annotated[list[str] | None, typer.Option(help="Never run these: globs on server/tool.")] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Approve the call.")] = False,
    timeout: Annotated[float, typer.Option(help="Seconds for the whole call.")] = 300.0,
    wait: Annotated[float, typer.Option(help="Seconds to wait for the servers.")] = 30.0,
) -> None:
    """Run one governed call and print its result. Without --yes or --allow it asks; piped, it is the allowance."""
    parsed = _arguments(arguments)

    async def run() -> bool:
        servers = _load(config)
        asks = sys.stdin.isatty() and not yes
        policy = Policy(allow=allow or ([] if asks else ["*"]), ask=["*"] if asks else [], deny=deny or [])
        async with Hub("cli", servers=servers, policy=policy, on_ask=_ask, limits=Limits(call_timeout=timeout)) as hub:
            await _wait(hub, wait, only=tool)
            result = await hub.call_tool(tool, parsed)
            print(_readable(result))  # noqa: T201 (the command's output)
            return not result.is_error

    _run(run)


def main() -> None:
    """Entry point of the ``conduit-actors`` script."""
    app()


def _run(work: Any) -> None:
    try:
        good = anyio.run(work)
    except ConfigurationError as error:
        _fail(error.message, 2)
    except ConduitError as error:
        _fail(f"{error.code}: {error.message}", 1)
    if not good:
        raise typer.Exit(1)


def _load(config: Path) -> list[Server]:
    servers = load_servers(config)
    if not servers:
        raise ConfigurationError(f"{config}: has no server that is not disabled")
    # One attempt: a person at a prompt wants the reason, not a back-off.
    return [replace(server, restart=RestartPolicy(max_restarts=0)) for server in servers]


async def _wait(hub: Hub, seconds: float, *, only: str | None = None) -> list[str]:
    """Complain about each server that is not up; give their ids."""
    status = await hub.wait_ready(timeout=seconds)
    down = [server for server in status.values() if server.state != "ready"]
    for server in down:
        _complain(f"{server.id}: {server.last_error or f'not ready after {seconds:g} s'}")
    return [server.id for server in down]


def _arguments(text: str) -> dict[str, Any]:
    try:
        parsed: object = json.loads(text)
    except (ValueError, RecursionError) as error:
        _fail(f"the arguments are not JSON: {error}", 2)
    if not isinstance(parsed, dict):
        _fail("the arguments must be a JSON object", 2)
    return parsed  # pyright: ignore[reportUnknownVariableType]


async def _ask(request: ApprovalRequest) -> Allow | Deny:
    question = f"run {request.server_id}/{request.tool} with {json.dumps(dict(request.arguments))}?"
    good = await anyio.to_thread.run_sync(lambda: typer.confirm(question, err=True), abandon_on_cancel=True)
    return Allow() if good else Deny("the person at the prompt said no")


def _readable(result: ToolResult) -> str:
    if result.content and all(block.get("type") == "text" for block in result.content):
        return result.text
    shown: dict[str, Any] = {"content": list(result.content)}
    if result.structured is not None:
        shown["structuredContent"] = result.structured
    return json.dumps(shown, indent=2, ensure_ascii=False)


def _complain(text: str) -> None:
    Console(stderr=True, highlight=False).print(" ".join(text.split()), markup=False, soft_wrap=True)


def _fail(text: str, status: int) -> NoReturn:
    _complain(text)
    raise typer.Exit(status)


if __name__ == "__main__":
    main()
