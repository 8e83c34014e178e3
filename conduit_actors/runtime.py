"""`Runtime`: what all calls of one hub share, and the link from server states to telemetry."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, cast

from opentelemetry.trace import SpanContext

from conduit_actors.admission import Admission
from conduit_actors.approvals import Approvals
from conduit_actors.arguments import ArgumentValidator
from conduit_actors.errors import ServerUnavailable
from conduit_actors.hooks import Hook, Hooks
from conduit_actors.limits import Limits
from conduit_actors.pin_gate import PinGate
from conduit_actors.policy import Policy, PolicySource, policy_for
from conduit_actors.server import Server
from conduit_actors.table import ServerTable, Slot
from conduit_supervision import ActorSystem, TaskActorRef, events
from conduit_telemetry import notice, server_event

_VALIDATORS_KEPT = 10_000


class Runtime:
    """The shared state of a hub's calls. Read by workers, on one event loop.

    Attributes:
        table: the server table, written by the hub's actor only.
        policy: the policy or the function that gives each principal's; None: calls run as asked.
    """

    def __init__(
        self,
        name: str,
        limits: Limits,
        policy: PolicySource | None,
        approvals: Approvals,
        hooks: Sequence[Hook],
    ) -> None:
        self.name = name
        self.limits = limits
        self.policy = policy
        self.approvals = approvals
        self.hooks = Hooks(hooks)
        self.table = ServerTable()
        self.admission = Admission(limits)
        self.pins = PinGate()
        self.system: ActorSystem | None = None
        self._validators: dict[int, tuple[Mapping[str, Any], ArgumentValidator]] = {}
        self._crashes: dict[Slot, SpanContext] = {}
        self._told: set[str] = set()

    def policy_of(self, principal: str | None) -> Policy | None:
        """The policy that this principal's calls are under."""
        return None if self.policy is None else policy_for(self.policy, principal)

    def validator(self, schema: Mapping[str, Any]) -> ArgumentValidator:
        """The compiled validator of an input schema, made once per schema object."""
        found = self._validators.get(id(schema))
        if found is not None:
            return found[1]
        if len(self._validators) >= _VALIDATORS_KEPT:
            self._validators.clear()
        validator = ArgumentValidator(schema, max_echo=self.limits.max_echo_chars)
        # The entry holds the schema, so that its id is not given to another.
        self._validators[id(schema)] = (schema, validator)
        return validator

    def annotations(self, server: Server, tool: str) -> dict[str, Any]:
        """What the host declares of a tool."""
        declared: dict[str, Any] = {}
        for pattern, values in server.annotations.items():
            if fnmatchcase(tool, pattern):
                declared.update(values)
        return declared

    def request_timeout(self, server: Server, tool: str) -> float:
        """Seconds for one request: the most specific of the server's globs, else its general time-out."""
        matching = [pattern for pattern in server.tool_timeouts if fnmatchcase(tool, pattern)]
        if not matching:
            return server.timeout
        return server.tool_timeouts[max(matching, key=lambda pattern: len(pattern.replace("*", "")))]

    def repeatable(self, server: Server, tool: str) -> bool:
        """Whether the host declared the tool safe to repeat."""
        return any(fnmatchcase(tool, pattern) for pattern in server.retry)

    def warnings(self) -> tuple[str, ...]:
        """What the host should look at: rules that can never match, tools that are not valid."""
        found = self.dead_rules()
        for slot in self.table:
            found += [f"{slot.server.id}: tool {name!r} is left out: {reason}" for name, reason in slot.quarantined]
            found += [f"{slot.server.id}: tool {one.tool!r}: {one.reason}" for one in slot.pins if not one.held]
        return tuple(dict.fromkeys(found))

    def state_changed(self, slot: Slot, before: str) -> None:
        """Turn a change of a server's state into telemetry."""
        server_id = slot.server.id
        match slot.state:
            case "starting":
                kind = "restart" if before == "restarting" else "probe" if slot.probing else "start"
                server_event(kind, server_id, restarts=slot.restarts, link=self._crashes.get(slot))
            case "ready":
                crash = self._crashes.pop(slot, None)
                if slot.was_parked:
                    server_event("unpark", server_id, restarts=slot.restarts, link=crash)
                server_event("ready", server_id, restarts=slot.restarts, link=crash)
                for tool, reason in slot.quarantined:
                    notice("tool_quarantined", server_id=server_id, tool=tool, reason=reason)
                self._tell_of_dead_rules()
            case "restarting":
                self._crashes[slot] = server_event("crash", server_id, reason=slot.last_error, restarts=slot.restarts)
            case "parked":
                link = self._crashes.get(slot)
                server_event("park", server_id, reason=slot.last_error, restarts=slot.restarts, link=link)
            case "idle" | "stopped":
                server_event("stop", server_id, restarts=slot.restarts)

    def _tell_of_dead_rules(self) -> None:
        """Once for each rule, as soon as the tools of all servers that it may be meant for are known."""
        for warning in self.dead_rules():
            if warning not in self._told:
                self._told.add(warning)
                notice("dead_policy_rule", reason=warning)

    def dead_rules(self) -> list[str]:
        """Rules of the policy that can never match, so far as that is known."""
        if not isinstance(self.policy, Policy):
            return []
        tools = [(slot.server.id, tool["name"]) for slot in self.table for tool in slot.tools]
        known = {slot.server.id for slot in self.table if slot.tools}
        return self.policy.dead_rules(tools, pending=[one for one in self.table.servers if one not in known])

    def actor_event(self, event: events.Event) -> None:
        """Turn what happens in the supervision tree, and no server's state shows, into telemetry."""
        match event:
            case events.ZombieFound(ref):
                server_event("zombie", self._server_of(ref), reason=str(ref))
            case events.Killed(ref):
                server_event("kill", self._server_of(ref), reason=str(ref))
            case events.RestartScheduled(supervisor=supervisor, attempt=attempt, delay=delay):
                server_event("backoff", self._server_of(supervisor), restarts=attempt, backoff=delay)
            case events.GaveUp(ref, reason=reason):
                server_event("give_up", self._server_of(ref), reason=str(reason))
            case _:
                pass

    def _server_of(self, ref: Any) -> str:
        """The server that an actor of the tree belongs to; empty for the tree's own."""
        actor: Any = cast("TaskActorRef[Any]", ref).actor() if isinstance(ref, TaskActorRef) else None
        known = getattr(actor, "server_id", None)
        if isinstance(known, str):
            return known
        return next((slot.server.id for slot in self.table if slot.owner is ref), "")

    def gone(self, server_id: str) -> ServerUnavailable:
        """The error for a call of a server that was removed."""
        return ServerUnavailable(f"there is no server {server_id!r} any more", server_id=server_id)
