"""`Server`: how one MCP server is reached, and how its connection behaves. Plain, immutable configuration."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, fields
from os import PathLike
from typing import Any, Literal, TypeAlias

from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from conduit_actors.errors import ConfigurationError
from conduit_actors.pinning import PinStore

HeaderProvider: TypeAlias = Callable[..., Mapping[str, str] | Awaitable[Mapping[str, str]]]
ToolFilter: TypeAlias = Sequence[str] | Callable[[str], bool]

__all__ = ["RestartPolicy", "Server"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartPolicy:
    """When a lost connection is opened again. Times in seconds.

    After `max_restarts` restarts within `max_seconds`, successful handshakes included, the server is *parked*: its
    calls fail at once and one attempt is made every `probe_interval`, for ever. A connection that stayed up for
    `reset_after` gives the whole budget back.

    Attributes:
        initial, maximum, factor, jitter: the back-off between restarts; "full" jitter draws uniformly between 0 and
            the delay.
    """

    max_restarts: int = 5
    max_seconds: float = 60.0
    initial: float = 0.1
    maximum: float = 30.0
    factor: float = 2.0
    jitter: Literal["full", "none"] = "full"
    reset_after: float = 60.0
    probe_interval: float = 30.0

    def __post_init__(self) -> None:
        if self.max_restarts < 0:
            raise ConfigurationError("RestartPolicy.max_restarts must not be negative")
        for name in ("max_seconds", "initial", "maximum", "factor", "reset_after", "probe_interval"):
            if getattr(self, name) <= 0:
                raise ConfigurationError(f"RestartPolicy.{name} must be greater than 0")


_SECRET_FIELDS = frozenset({"headers", "auth", "env", "transport", "proxy", "verify", "args"})


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Server:
    """One MCP server. Exactly one of `url`, `command` and `transport` says how it is reached.

    All times are in seconds, all sizes in bytes. The repr shows no header, token, argument or environment value.

    Attributes:
        id: the host's name of the server; policies match ``id/tool``. Not empty, no ``/``.
        url: a Streamable HTTP endpoint.
        headers: sent with each HTTP request; a mapping, or a (plain or async) callable that is asked for each request.
        auth: an httpx auth object, or a (plain or async) callable that gives a bearer token: it is asked for each
            request, and again, once for all waiting requests, when the server answers 401. A callable for `headers`,
            `auth` or `transport` that takes a parameter is given the principal.
        command, args, env, cwd: a local program spoken to over stdio. `env` is added to a small safe set
            (PATH, HOME, ...), not to the whole environment of the host.
        transport: an in-process MCP server object, or an mcp ``Transport``, or a callable that returns a fresh one
            for each connection.
        tools: which of the server's tools exist for this hub: globs on raw names, or a predicate. None: all.
        connect_timeout: for the spawn, the handshake and the first tool list together.
        timeout: for one request; a progress report starts it again.
        tool_timeouts: `timeout` per tool, by glob on the raw name; the most specific glob wins.
        restart: what happens when the connection ends.
        lazy: connect at the first call or listing instead of at start.
        idle_timeout: a lazy server that has had no call for so long is disconnected.
        health_interval: an idle connection is checked this often; None: never.
        per_principal: one connection per principal instead of one for all.
        validate: False sends arguments without checking them against the input schema.
        retry: globs of tools that are safe to repeat; only they are sent again, once, after a lost connection.
        pin: holds back tools that changed since they were approved: a `PinStore`, or the path of one that blocks.
            "block" and "warn" alone keep their pins in memory, as long as the hub is open.
        annotations: what the *host* declares of tools, by glob (e.g. ``{"get_*": {"readOnlyHint": True}}``).
        description: the host's words for the server, for providers that group tools.
        max_tools, max_pages: caps on the tool list.
        max_message_bytes: a longer message from the server ends the connection.
        stderr_lines: how many last lines of the program's stderr are kept for the status.
        shutdown_grace: time the program gets after its stdin closed, and again after SIGTERM, before SIGKILL.
        protocol: "auto" probes for the stateless revision and falls back to the handshake; "legacy" always shakes
            hands; or a revision of the stateless kind, e.g. "2026-07-28".
        elicitation, sampling: (async) callbacks for a server's own requests; without one it gets a refusal.
        roots: URIs offered to the server as roots; None: the capability is not offered.
        verify, proxy, trust_env: TLS and proxy settings as httpx has them.
    """

    id: str
    _: KW_ONLY
    url: str | None = None
    headers: Mapping[str, str] | HeaderProvider | None = None
    auth: Any = None
    command: str | None = None
    args: Sequence[str] = ()
    env: Mapping[str, str] | None = None
    cwd: str | PathLike[str] | None = None
    transport: Any = None
    tools: ToolFilter | None = None
    connect_timeout: float = 30.0
    timeout: float = 60.0
    tool_timeouts: Mapping[str, float] = field(default_factory=dict[str, float])
    restart: RestartPolicy = field(default_factory=RestartPolicy)
    lazy: bool = False
    idle_timeout: float | None = None
    health_interval: float | None = 30.0
    per_principal: bool = False
    validate: bool = True
    retry: Sequence[str] = ()
    pin: PinStore | str | PathLike[str] | None = None
    annotations: Mapping[str, Mapping[str, Any]] = field(default_factory=dict[str, Mapping[str, Any]])
    description: str = ""
    max_tools: int = 1_000
    max_pages: int = 100
    max_message_bytes: int = 64 * 1024 * 1024
    stderr_lines: int = 50
    shutdown_grace: float = 2.0
    protocol: str = "auto"
    elicitation: Callable[..., Any] | None = None
    sampling: Callable[..., Any] | None = None
    roots: Sequence[str] | None = None
    verify: Any = True
    proxy: str | None = None
    trust_env: bool = True

    def __post_init__(self) -> None:
        if not self.id or "/" in self.id or self.id != self.id.strip():
            raise ConfigurationError(f"a server id is not empty and has no '/' or outer spaces: {self.id!r}")
        given = [name for name in ("url", "command", "transport") if getattr(self, name) is not None]
        if len(given) != 1:
            found = " and ".join(given) or "none of them"
            raise ConfigurationError(f"server {self.id!r} needs exactly one of url, command, transport; it has {found}")
        if self.url is not None and not self.url.lower().startswith(("http://", "https://")):
            raise ConfigurationError(f"server {self.id!r}: url must start with http:// or https://")
        for name in ("connect_timeout", "timeout", "idle_timeout", "health_interval", "shutdown_grace"):
            value = getattr(self, name)
            if value is not None and value <= 0:
                raise ConfigurationError(f"server {self.id!r}: {name} must be greater than 0")
        if self.protocol not in ("auto", "legacy") and self.protocol not in MODERN_PROTOCOL_VERSIONS:
            raise ConfigurationError(
                f"server {self.id!r}: protocol is 'auto', 'legacy' or one of {', '.join(MODERN_PROTOCOL_VERSIONS)}"
            )
        if isinstance(self.args, str):
            raise ConfigurationError(f"server {self.id!r}: args is a list of strings, not one string")

    def __repr__(self) -> str:
        parts: list[str] = [repr(self.id)]
        for item in fields(self):
            value = getattr(self, item.name)
            if item.name == "id" or value is None or value == item.default:
                continue
            if item.name == "url":
                parts.append(f"url={public_url(value)!r}")
            elif item.name in _SECRET_FIELDS:
                if value:
                    parts.append(f"{item.name}=...")
            elif item.name in ("command", "lazy", "cwd"):
                parts.append(f"{item.name}={value!r}")
        return f"Server({', '.join(parts)})"


def public_url(url: str) -> str:
    """`url` without user info, query and fragment, which may hold secrets."""
    scheme, _, rest = url.partition("://")
    authority, slash, path = rest.split("?", 1)[0].split("#", 1)[0].partition("/")
    return f"{scheme}://{authority.rpartition('@')[2]}{slash}{path}"
