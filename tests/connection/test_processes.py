"""Programs: none is left behind, none is doubled, and their stderr is kept."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import anyio
import anyio.to_thread
import psutil
import pytest

from conduit_actors.connection import open_connection
from conduit_actors.connection.process import read_some
from conduit_actors.errors import OutcomeUnknown, ServerUnavailable
from servers import stdio_server

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(sys.platform != "linux", reason="process groups and /proc as on Linux"),
]


def gone(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


async def until_gone(pid: int) -> None:
    with anyio.fail_after(10):
        while not gone(pid):
            await anyio.sleep(0.02)


def children() -> list[psutil.Process]:
    return psutil.Process().children(recursive=True)


async def test_there_is_one_child_and_afterwards_none() -> None:
    before = len(children())
    with anyio.fail_after(20):
        async with open_connection(stdio_server()) as connection:
            assert [child.pid for child in children()[before:]] == [connection.pid]
    assert len(children()) == before


async def test_no_child_zombie_or_descriptor_is_left_after_many_crashes() -> None:
    process = psutil.Process()

    async def crash() -> None:
        async with open_connection(stdio_server()) as connection:
            with pytest.raises(OutcomeUnknown):
                await connection.call_tool("die", {}, timeout=20)

    with anyio.fail_after(50):
        await crash()
        descriptors, before = process.num_fds(), len(children())
        for _ in range(10):
            await crash()
        for _ in range(3):
            with pytest.raises(ServerUnavailable):
                async with open_connection(stdio_server("exit-after-handshake")):
                    pytest.fail("it opened")
    assert len(children()) == before
    assert process.num_fds() <= descriptors


async def test_a_program_that_ignores_eof_and_sigterm_is_killed_in_bounded_time() -> None:
    with anyio.fail_after(20):
        async with open_connection(stdio_server("ignore-eof", "ignore-sigterm", shutdown_grace=0.3)) as connection:
            pid = connection.pid
        assert pid is not None
        assert gone(pid)


@pytest.mark.parametrize("crash", [False, True])
async def test_grandchildren_end_with_the_connection(tmp_path: Path, crash: bool) -> None:
    file = tmp_path / "grandchild"
    with anyio.fail_after(20):
        async with open_connection(stdio_server(f"grandchild={file}", shutdown_grace=0.3)) as connection:
            grandchild = int(file.read_text())
            assert not gone(grandchild)
            if crash:
                assert connection.pid is not None
                os.kill(connection.pid, signal.SIGKILL)
                await connection.closed.wait()
    await until_gone(grandchild)


async def test_a_cancelled_owner_leaves_no_program_behind() -> None:
    pids: list[int] = []
    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:

            async def own() -> None:
                async with open_connection(stdio_server("ignore-eof")) as connection:
                    assert connection.pid is not None
                    pids.append(connection.pid)
                    opened.set()
                    await anyio.sleep_forever()

            opened = anyio.Event()
            tasks.start_soon(own)
            await opened.wait()
            tasks.cancel_scope.cancel()
    assert gone(pids[0])


async def test_a_time_out_of_the_opening_leaves_no_program_behind(tmp_path: Path) -> None:
    spawns = tmp_path / "spawns"
    with anyio.fail_after(20):
        server = stdio_server("hang-initialize", "ignore-eof", f"spawns={spawns}", connect_timeout=0.5)
        with pytest.raises(ServerUnavailable):
            async with open_connection(server):
                pytest.fail("it opened")
    assert gone(int(spawns.read_text()))


async def test_the_program_ends_when_its_host_is_killed() -> None:
    script = textwrap.dedent(
        """
        import anyio
        from servers import stdio_server
        from conduit_actors.connection import open_connection

        async def main():
            async with open_connection(stdio_server("ignore-eof", "ignore-sigterm")) as connection:
                print(connection.pid, flush=True)
                await anyio.sleep_forever()

        anyio.run(main)
        """
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    host = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, env=environment)
    try:
        assert host.stdout is not None
        with anyio.fail_after(30):
            pid = int(await anyio.to_thread.run_sync(host.stdout.readline))
        assert not gone(pid)
    finally:
        host.kill()
        host.wait()
        assert host.stdout is not None
        host.stdout.close()
    await until_gone(pid)


async def test_stderr_is_kept_in_bounds_redacted_and_not_printed(capfd: pytest.CaptureFixture[str]) -> None:
    flags = ("stderr=" + "line\n" * 500 + "x" * 100_000, "environ=CANARY")
    with anyio.fail_after(20):
        server = stdio_server(*flags, env={"CANARY": "canary-secret"}, stderr_lines=10)
        async with open_connection(server) as connection:
            tail = connection.stderr_tail
    assert len(tail) == 10
    assert tail[-1] == "CANARY is [redacted]"
    assert max(map(len, tail)) <= 2_000
    assert capfd.readouterr() == ("", "")


async def test_the_host_environment_is_not_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOST_CANARY", "canary-secret")
    with anyio.fail_after(20):
        async with open_connection(stdio_server("environ=HOST_CANARY")) as connection:
            assert connection.stderr_tail[-1] == "HOST_CANARY is None"


async def test_a_program_that_never_pauses_leaves_the_loop_to_others() -> None:
    """Reading what is there already must let other tasks run; no program floods a pipe reliably enough to show it."""
    others_ran = anyio.Event()

    async def other() -> None:
        others_ran.set()

    source, sink = os.pipe()
    os.set_blocking(source, False)
    with os.fdopen(source, "rb", buffering=0) as pipe:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(other)
            for _ in range(2):
                os.write(sink, b"x")
                assert await read_some(pipe) == b"x"
            assert others_ran.is_set()
        os.close(sink)
        assert await read_some(pipe) == b""
