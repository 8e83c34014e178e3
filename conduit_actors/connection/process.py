"""`ServerProcess`: a child process in a group of its own, that is always ended and always reaped."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import IO, cast

import anyio
import anyio.lowlevel
from mcp.client.stdio import get_default_environment

from conduit_actors.errors import ServerUnavailable
from conduit_actors.server import Server

_WITH_PARENT = Path(__file__).with_name("with_parent.py")
_POLL_SECONDS = 0.05
_KILL_SECONDS = 1.0
_MAX_STDERR_LINE = 2_000


class ServerProcess:
    """A running MCP server program.

    Invariants: it leads a session and process group of its own; `stop` ends the whole group, grandchildren of
    wrappers like ``npx`` included, within ``2 * shutdown_grace`` plus one second, and leaves no zombie.
    """

    def __init__(self, server: Server) -> None:
        """Start it.

        Raises:
            ServerUnavailable: there is no such command, or it cannot be run.
        """
        assert server.command is not None
        environment = get_default_environment() | dict(server.env or {})
        command = [_find(server, environment), *server.args]
        if sys.platform == "linux":
            command = [sys.executable, "-I", "-S", str(_WITH_PARENT), str(os.getpid()), *command]
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=environment,
                cwd=server.cwd,
                start_new_session=True,
                bufsize=0,
            )
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            raise ServerUnavailable(
                f"the server {server.id!r} cannot be started: {reason}", server_id=server.id
            ) from error
        self.pid = self._process.pid
        self._status: int | None = None
        self._grace = server.shutdown_grace
        self.stderr_lines: deque[str] = deque(maxlen=server.stderr_lines)
        for pipe in (self.stdin, self.stdout, self.stderr):
            os.set_blocking(pipe.fileno(), False)

    @property
    def stdin(self) -> IO[bytes]:
        return cast("IO[bytes]", self._process.stdin)

    @property
    def stdout(self) -> IO[bytes]:
        return cast("IO[bytes]", self._process.stdout)

    @property
    def stderr(self) -> IO[bytes]:
        return cast("IO[bytes]", self._process.stderr)

    @property
    def returncode(self) -> int | None:
        """The exit status, negative for a signal; None while it runs."""
        if self._status is None:
            self._status = self._look()
        return self._status

    def _look(self) -> int | None:
        if not hasattr(os, "waitid"):  # macOS before Python 3.13
            return self._process.poll()
        try:
            # Not reaped yet: until then nobody else can get its id, which is also that of the group.
            seen = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:  # the host ignores SIGCHLD, or somebody reaped it
            return self._process.poll()
        if seen is None:
            return None
        return seen.si_status if seen.si_code == os.CLD_EXITED else -seen.si_status

    @property
    def ending(self) -> str:
        """How it ended, in words."""
        code = self.returncode
        if code is None:
            return "it closed its stdout"
        return f"its process ended with {f'signal {-code}' if code < 0 else f'exit status {code}'}"

    async def wait_exit(self) -> int:
        """Wait until the program itself has ended, whoever holds its pipes."""
        if self.returncode is None and hasattr(os, "pidfd_open"):
            try:
                descriptor = os.pidfd_open(self.pid)
            except OSError:
                descriptor = -1
            if descriptor >= 0:
                try:
                    await anyio.wait_readable(descriptor)
                finally:
                    os.close(descriptor)
        while (status := self.returncode) is None:  # noqa: ASYNC110 - without a pidfd nothing but asking tells
            await anyio.sleep(_POLL_SECONDS)
        return status

    async def drain_stderr(self) -> None:
        """Read stderr to its end; keep the last lines, each cut to a bound."""
        rest = b""
        while chunk := await read_some(self.stderr):
            *lines, rest = (rest + chunk).split(b"\n")
            rest = rest[-_MAX_STDERR_LINE:]
            for line in lines:
                text = line[:_MAX_STDERR_LINE].decode("utf-8", "replace").rstrip()
                if text:
                    self.stderr_lines.append(text)
        if rest:
            self.stderr_lines.append(rest.decode("utf-8", "replace").rstrip())

    def close_stdin(self) -> None:
        """Tell the program that nothing more comes. A writer that waits for room in the pipe is woken."""
        _close(self.stdin)

    def close_outputs(self) -> None:
        """Let go of stdout and stderr. Whoever reads them is woken."""
        _close(self.stdout)
        _close(self.stderr)

    async def stop(self) -> bool:
        """Close stdin; wait; SIGTERM to the group; wait; SIGKILL to the group. Call it shielded.

        Says whether the program ended without a signal of ours.
        """
        self.close_stdin()
        with anyio.move_on_after(self._grace):
            await self.wait_exit()
        by_itself = self.returncode is not None
        # A leader that went does not mean that its children did.
        self._signal_group(signal.SIGTERM)
        with anyio.move_on_after(self._grace):
            await self.wait_exit()
            self._process.poll()
            while self._signal_group(0):  # noqa: ASYNC110 - nothing tells of a group's end
                await anyio.sleep(_POLL_SECONDS / 2)
            return by_itself
        self._signal_group(signal.SIGKILL)
        with anyio.move_on_after(_KILL_SECONDS):
            await self.wait_exit()
        self._process.poll()
        return by_itself

    def _signal_group(self, number: int) -> bool:
        """Signal the group; False when nothing of it is left."""
        try:
            os.killpg(self.pid, number)
        except ProcessLookupError:
            return False
        except PermissionError:  # e.g. a group of zombies that somebody else has to reap (macOS)
            return self.returncode is None
        return True


def _find(server: Server, environment: Mapping[str, str]) -> str:
    command = cast("str", server.command)
    if os.sep in command:
        return command
    found = shutil.which(command, path=environment.get("PATH"))
    if found is None:
        raise ServerUnavailable(
            f"the server {server.id!r} cannot be started: there is no command {command!r}", server_id=server.id
        )
    return found


def _close(pipe: IO[bytes]) -> None:
    if not pipe.closed:
        anyio.notify_closing(pipe)
        with contextlib.suppress(OSError):
            pipe.close()


async def read_some(pipe: IO[bytes]) -> bytes:
    """The next bytes of a non-blocking pipe; empty at its end, or when it is closed here."""
    waited = False
    while True:
        try:
            chunk = os.read(pipe.fileno(), 65_536)
        except BlockingIOError:
            waited = True
            try:
                await anyio.wait_readable(pipe)
            except anyio.ClosedResourceError:
                return b""
        except (OSError, ValueError):
            return b""
        else:
            if not waited:
                # A program that never pauses must not keep the event loop to itself.
                await anyio.lowlevel.checkpoint()
            return chunk
