"""A supervised worker without any MCP: it crashes, and its supervisor brings it back.

Run it: ``uv run python examples/supervised_worker.py``
"""

from __future__ import annotations

import anyio

from conduit_supervision import ActorSystem, Backoff, ChildSpec, RestartIntensity, Supervisor, TaskActor


class Counter(TaskActor):
    """Counts its messages; a new incarnation starts from nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    async def on_receive(self, message: str) -> int:
        if message == "crash":
            raise RuntimeError("as asked")
        self.count += 1
        return self.count


async def main() -> None:
    async with ActorSystem() as system:
        supervisor = Supervisor.start(
            children=[ChildSpec("counter", Counter, name="counter")],
            intensity=RestartIntensity(max_restarts=3, max_seconds=5.0),
            backoff=Backoff(initial=0.01),
        )
        await supervisor.started()
        counter = system.whereis("counter")
        assert counter is not None
        print("first:", await counter.ask("up", block=False), await counter.ask("up", block=False))
        counter.tell("crash")  # nobody waits for the answer: the actor ends
        print("it ended:", await counter.wait())
        while (again := system.whereis("counter")) is None:
            await anyio.sleep(0.01)
        print("its successor:", await again.ask("up", block=False))
        print(system.tree())


if __name__ == "__main__":
    anyio.run(main)
