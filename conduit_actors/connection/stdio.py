"""The stdio transport: JSON-RPC messages, one a line, over a child process's pipes.

The SDK's own stdio client pumps messages through two tasks and two memory streams. Here the streams read and write
the pipes themselves, which saves those task switches, and they survive what servers do: banners and log lines on
stdout, text that is not UTF-8, giant lines, a grandchild that keeps stdout open after the server is gone.
"""

from __future__ import annotations

import logging
import os
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Self

import anyio
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCNotification, jsonrpc_message_adapter

from conduit_actors.connection.process import ServerProcess, read_some
from conduit_actors.connection.records import current_call
from conduit_actors.errors import ServerUnavailable
from conduit_actors.server import Server

_DRAIN_SECONDS = 0.25
"""After the program's exit, what it wrote last is still read for so long."""

_LOGGED_NOISE = 5
"""So many lines that are not JSON-RPC are logged per connection; then only their number is kept."""

_MAX_UNSENT = 1024 * 1024
"""Bytes that wait for a program that does not read. Notifications beyond are dropped: they never wait."""


class StdioTransport:
    """An mcp ``Transport``: entering it starts the program, leaving it stops the program.

    Attributes:
        process: set while it is entered.
        failure: why the connection ended, if the program or its output is to blame.
    """

    def __init__(self, server: Server) -> None:
        self.server = server
        self.process: ServerProcess | None = None
        self.failure: ServerUnavailable | None = None
        self._context = self._run()

    async def __aenter__(self) -> tuple[_Reader, _Writer]:
        return await self._context.__aenter__()

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> bool | None:
        return await self._context.__aexit__(exc_type, exc, tb)

    @asynccontextmanager
    async def _run(self) -> AsyncGenerator[tuple[_Reader, _Writer], None]:
        process = self.process = ServerProcess(self.server)
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(process.drain_stderr)
                tasks.start_soon(self._watch, process)
                try:
                    yield _Reader(process, self), _Writer(process)
                finally:
                    # Bounded by the process's own grace; a cancelled owner must not leave the program behind.
                    with anyio.CancelScope(shield=True):
                        if await process.stop():
                            self.fail(process.ending)
                    tasks.cancel_scope.cancel()
        finally:
            process.close_outputs()

    async def _watch(self, process: ServerProcess) -> None:
        """The program's end is the connection's end, even while a grandchild holds the pipes open."""
        await process.wait_exit()
        await anyio.sleep(_DRAIN_SECONDS)
        self.fail(process.ending)
        process.close_outputs()

    def fail(self, why: str) -> None:
        """Note the first reason for the end."""
        if self.failure is None:
            self.failure = ServerUnavailable(f"the server {self.server.id!r}: {why}", server_id=self.server.id)

    async def explain_end(self, seconds: float) -> None:
        """Set `failure`: the pipe closes a moment before the exit status is known."""
        assert self.process is not None
        with anyio.move_on_after(seconds):
            await self.process.wait_exit()
        self.fail(self.process.ending)


class _Reader:
    """Messages from the program's stdout."""

    def __init__(self, process: ServerProcess, transport: StdioTransport) -> None:
        self._process = process
        self._transport = transport
        self._limit = transport.server.max_message_bytes
        self._lines: deque[bytes] = deque()
        self._parts: list[bytes] = []
        self._size = 0
        self._noise = 0
        self._log = logging.getLogger(f"conduit_actors.server.{transport.server.id}")

    async def receive(self) -> SessionMessage | Exception:
        while True:
            while self._lines:
                line = self._lines.popleft()
                if len(line) > self._limit:
                    self._too_long()
                message = self._parse(line)
                if message is not None:
                    return message
            if self._size > self._limit:
                self._too_long()
            chunk = await read_some(self._process.stdout)
            if not chunk:
                raise anyio.EndOfStream
            self._split(chunk)

    def _split(self, chunk: bytes) -> None:
        first, *more = chunk.split(b"\n")
        self._parts.append(first)
        self._size += len(first)
        if more:
            self._lines.append(b"".join(self._parts))
            self._lines.extend(more[:-1])
            self._parts = [more[-1]]
            self._size = len(more[-1])

    def _too_long(self) -> None:
        self._transport.fail(f"it sent a message of more than {self._limit} bytes")
        raise anyio.EndOfStream

    def _parse(self, line: bytes) -> SessionMessage | None:
        if not line.strip():
            return None
        try:
            return SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
        except ValueError:
            pass
        try:
            # Not UTF-8 throughout, e.g. a Windows code page: the text is damaged, the message need not be lost.
            text = line.decode("utf-8", "replace")
            return SessionMessage(jsonrpc_message_adapter.validate_json(text, by_name=False))
        except ValueError:
            self._noise += 1
        if self._noise <= _LOGGED_NOISE:
            self._log.debug("skipped a line on stdout that is not JSON-RPC (%d bytes)", len(line))
        return None

    async def aclose(self) -> None:
        """Nobody reads any more; stopping the process closes the pipe."""

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        await self.aclose()


class _Writer:
    """Messages to the program's stdin.

    Invariant: a line goes out whole. One whose sender was cancelled half-way is finished by the next sender.
    """

    def __init__(self, process: ServerProcess) -> None:
        self._process = process
        self._lock = anyio.Lock()
        self._rest = bytearray()

    async def send(self, item: SessionMessage, /) -> None:
        line = item.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n"
        if isinstance(item.message, JSONRPCNotification):
            # A cancellation comes from a caller who is leaving: it must not wait for a program that does not read.
            if len(self._rest) <= _MAX_UNSENT:
                self._rest += line
            if not self._lock.locked():
                self._flush()
            return
        call = current_call.get()
        async with self._lock:
            while self._rest and not self._flush():
                await self._room()
            self._rest += line
            while not self._flush():
                await self._room()
        if call is not None:
            call.mark_sent()

    def _flush(self) -> bool:
        """Write what the pipe takes; whether that was all."""
        try:
            while self._rest:
                del self._rest[: os.write(self._process.stdin.fileno(), self._rest)]
        except BlockingIOError:
            return False
        except (OSError, ValueError) as error:
            raise anyio.BrokenResourceError from error
        return True

    async def _room(self) -> None:
        try:
            await anyio.wait_writable(self._process.stdin)
        except ValueError as error:  # closed meanwhile
            raise anyio.BrokenResourceError from error

    async def aclose(self) -> None:
        """Tell the program that nothing more comes."""
        self._process.close_stdin()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        await self.aclose()
