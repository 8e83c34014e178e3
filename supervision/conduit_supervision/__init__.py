"""OTP's supervision for Pykka actors, on asyncio and trio.

async with ActorSystem() as system:
    sup = system.start(Supervisor, children=[ChildSpec("echo", Echo)])
    await sup.started()
"""

import logging as _logging

from conduit_supervision import events
from conduit_supervision.actor import TaskActor
from conduit_supervision.backoff import Backoff
from conduit_supervision.dynamic import DynamicSupervisor
from conduit_supervision.exits import Down, Exit, ExitReason, Ignore, Shutdown, StrayCancellation
from conduit_supervision.future import TaskFuture
from conduit_supervision.monitor import Monitor
from conduit_supervision.ref import TaskActorRef
from conduit_supervision.spec import ChildError, ChildSpec, RestartIntensity
from conduit_supervision.supervisor import Supervisor
from conduit_supervision.system import ActorSystem
from conduit_supervision.tree import Node

__all__ = [
    "ActorSystem",
    "Backoff",
    "ChildError",
    "ChildSpec",
    "Down",
    "DynamicSupervisor",
    "Exit",
    "ExitReason",
    "Ignore",
    "Monitor",
    "Node",
    "RestartIntensity",
    "Shutdown",
    "StrayCancellation",
    "Supervisor",
    "TaskActor",
    "TaskActorRef",
    "TaskFuture",
    "events",
]

_logging.getLogger("conduit_supervision").addHandler(_logging.NullHandler())
