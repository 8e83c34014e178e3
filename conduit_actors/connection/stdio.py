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
import mcp_types as types
from mcp.shared.message import SessionMessage

from conduit_actors.connection.process import ServerProcess, read_some
from conduit_actors.errors import ServerUnavailable
from conduit_actors.server import Server

_DRAIN_SECONDS = 0.25
"""After the program's exit, what it wrote last is still read for so long."""

_LOGGED_NOISE = 5
"""So many lines that are not JSON-RPC are logged per connection; then only their number is."""


class StdioTransport:
    """An mcp ``Transport``: entering it starts the program, leaving it stops the program.

    Attributes:
        process: set while it is entered.
        failure: why the connection ended, if the program or its output is to blame.
    """

    def __init__(self, server: Server) -> None:
        self._server = server
        self._context = self._run()
        self.process: ServerProcess | None = None
        self.failure: ServerUnavailable | None = None

    async def __aenter__(self) -> tuple[_Reader, _Writer]:
        return await self._context.__aenter__()

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> bool | None:
        return await self._context.__aexit__(exc_type, exc, tb)

    @asynccontextmanager
    async def _run(self) -> AsyncGenerator[tuple[_Reader, _Writer], None]:
        process = self.process = ServerProcess(self._server)
        reader = _Reader(process, self)
        writer = _Writer(process)
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(process.drain_stderr)
                tasks.start_soon(self._watch, process, reader)
                try:
                    yield reader, writer
                finally:
                    # Bounded by the process's own grace; a cancelled owner must not leave the program behind.
                    with anyio.CancelScope(shield=True):
                        status = await process.stop()
                    if status is not None:
                        self.fail(f"its process ended with {_status(status)}")
                    tasks.cancel_scope.cancel()
        finally:
            # Without a task group (a failed start of it) nobody else would stop the program.
            if process.returncode is None:
                with anyio.CancelScope(shield=True):
                    await process.stop()

    async def _watch(self, process: ServerProcess, reader: _Reader) -> None:
        status = await process.wait_exit()
        await anyio.sleep(_DRAIN_SECONDS)
        self.fail(f"its process ended with {_status(status)}")
        reader.end()

    def fail(self, why: str) -> None:
        """Note the first reason for the end."""
        if self.failure is None:
            self.failure = ServerUnavailable(f"the server {self._server.id!r}: {why}", server_id=self._server.id)

    @property
    def max_message_bytes(self) -> int:
        return self._server.max_message_bytes

    @property
    def server_id(self) -> str:
        return self._server.id


def _status(code: int) -> str:
    return f"signal {-code}" if code < 0 else f"exit status {code}"


class _Reader:
    """Messages from the program's stdout."""

    def __init__(self, process: ServerProcess, transport: StdioTransport) -> None:
        self._process = process
        self._transport = transport
        self._lines: deque[bytes] = deque()
        self._parts: list[bytes] = []
        self._size = 0
        self._ended = False
        self._waiting: anyio.CancelScope | None = None
        self._noise = 0
        self._log = logging.getLogger(f"conduit_actors.server.{transport.server_id}")

    def end(self) -> None:
        """No more messages: wake the one who waits for the next."""
        self._ended = True
        if self._waiting is not None:
            self._waiting.cancel()

    async def receive(self) -> SessionMessage | Exception:
        while True:
            while self._lines:
                message = self._parse(self._lines.popleft())
                if message is not None:
                    return message
            if self._ended or not await self._read():
                raise anyio.EndOfStream

    async def _read(self) -> bool:
        chunk = b""
        with anyio.CancelScope() as self._waiting:
            chunk = await read_some(self._process.stdout)
        self._waiting = None
        if not chunk:
            return False
        first, *more = chunk.split(b"\n")
        self._parts.append(first)
        self._size += len(first)
        if more:
            self._lines.append(b"".join(self._parts))
            self._lines.extend(more[:-1])
            self._parts = [more[-1]]
            self._size = len(more[-1])
        if self._size > self._transport.max_message_bytes:
            self._transport.fail(f"it sent a message of more than {self._transport.max_message_bytes} bytes")
            return False
        return True

    def _parse(self, line: bytes) -> SessionMessage | None:
        if not line.strip():
            return None
        try:
            return SessionMessage(types.jsonrpc_message_adapter.validate_json(line, by_name=False))
        except ValueError:
            pass
        try:
            # Not UTF-8 throughout, e.g. a Windows code page: the text is damaged, the message need not be lost.
            text = line.decode("utf-8", "replace")
            return SessionMessage(types.jsonrpc_message_adapter.validate_json(text, by_name=False))
        except ValueError:
            self._noise += 1
        if self._noise <= _LOGGED_NOISE:
            self._log.debug("skipped a line on stdout that is not JSON-RPC (%d bytes)", len(line))
        return None

    @property
    def noise(self) -> int:
        """How many lines were not JSON-RPC."""
        return self._noise

    async def aclose(self) -> None:
        self.end()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
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
        async with self._lock:
            self._rest += line
            while self._rest:
                try:
                    del self._rest[: os.write(self._process.stdin.fileno(), self._rest)]
                except BlockingIOError:
                    await anyio.wait_writable(self._process.stdin)
                except (OSError, ValueError) as error:
                    raise anyio.BrokenResourceError from error

    async def aclose(self) -> None:
        """Closing stdin is part of stopping the process, which keeps the order."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        return None
