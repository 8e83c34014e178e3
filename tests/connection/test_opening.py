"""How a connection opens, and what is said when it does not."""

from __future__ import annotations

import socket
import sys
from pathlib import Path

import anyio
import pytest

from conduit_actors.connection import open_connection
from conduit_actors.errors import ServerUnavailable
from conduit_actors.server import Server
from servers import http_server, stdio_server

pytestmark = pytest.mark.anyio


async def refusal(server: Server) -> ServerUnavailable:
    with anyio.fail_after(20):
        with pytest.raises(ServerUnavailable) as caught:
            async with open_connection(server):
                pytest.fail("it opened")
    assert caught.value.server_id == server.id
    assert server.id in str(caught.value)
    assert "\n" not in str(caught.value)
    return caught.value


async def test_opens_with_the_tools_and_what_the_server_says_of_itself() -> None:
    with anyio.fail_after(20):
        async with open_connection(stdio_server()) as connection:
            assert [tool["name"] for tool in connection.tools][:2] == ["echo", "wait"]
            assert connection.protocol_version == "2025-11-25"
            assert connection.server_info == {"name": "hand-written", "version": "1"}
            assert connection.instructions == "Be kind."
            assert connection.pid is not None
            assert not connection.closed.is_set()
        assert connection.closed.is_set()
        assert connection.failure is None


@pytest.mark.parametrize("protocol", ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"])
async def test_speaks_the_handshake_revisions(protocol: str) -> None:
    with anyio.fail_after(20):
        async with open_connection(stdio_server(f"protocol={protocol}")) as connection:
            assert connection.protocol_version == protocol
            result = await connection.call_tool("echo", {"text": "hi"}, timeout=5)
            assert result["content"][0]["text"] == "hi"


async def test_a_server_that_ends_when_probed_is_greeted_by_the_handshake() -> None:
    with anyio.fail_after(20):
        async with open_connection(stdio_server("strict")) as connection:
            assert connection.protocol_version == "2025-11-25"
            await connection.call_tool("echo", {"text": "hi"}, timeout=5)


async def test_a_real_server_of_the_stateless_revision() -> None:
    command = str(Path(sys.executable).with_name("mcp-server-time"))
    with anyio.fail_after(30):
        async with open_connection(Server("time", command=command)) as connection:
            assert connection.protocol_version == "2026-07-28"
            result = await connection.call_tool("get_current_time", {"timezone": "UTC"}, timeout=10)
            assert result["structuredContent"]["timezone"] == "UTC"


async def test_a_missing_command() -> None:
    assert "no command 'no-such-command'" in str(await refusal(Server("s", command="no-such-command")))


async def test_a_command_that_cannot_be_executed(tmp_path: Path) -> None:
    file = tmp_path / "server"
    file.write_text("not a program")
    assert "Permission denied" in str(await refusal(Server("s", command=str(file))))


async def test_a_missing_directory() -> None:
    assert "No such file" in str(await refusal(Server("s", command="true", cwd="/no/such/directory")))


async def test_a_program_that_ends_says_its_status_and_last_words() -> None:
    error = await refusal(Server("s", command="sh", args=["-c", "echo no database >&2; exit 3"]))
    assert "exit status 3" in str(error)
    assert "no database" in str(error)


async def test_a_server_that_ends_right_after_the_handshake() -> None:
    assert "exit status 4" in str(await refusal(stdio_server("exit-after-handshake")))


async def test_a_server_that_never_answers_the_handshake() -> None:
    error = await refusal(stdio_server("hang-initialize", connect_timeout=0.5))
    assert "did not come up within 0.5 s" in str(error)


async def test_a_server_that_writes_only_garbage() -> None:
    error = await refusal(stdio_server("garbage", connect_timeout=0.5))
    assert "did not come up within 0.5 s" in str(error)


async def test_a_slow_starter_is_waited_for(tmp_path: Path) -> None:
    spawns = tmp_path / "spawns"
    server = stdio_server("slow-start=1.5", f"spawns={spawns}", health_interval=0.2)
    with anyio.fail_after(30):
        async with open_connection(server) as connection:
            await connection.call_tool("echo", {"text": "hi"}, timeout=5)
    assert len(spawns.read_text().split()) == 1


async def test_a_closed_port() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    error = await refusal(Server("h", url=f"http://127.0.0.1:{port}/mcp?key=canary-secret"))
    assert f"cannot be reached at http://127.0.0.1:{port}/mcp" in str(error)
    assert "canary" not in str(error)


async def test_a_name_that_does_not_exist() -> None:
    assert "cannot be reached" in str(await refusal(Server("h", url="http://no-such-host.invalid/mcp")))


async def test_plain_http_where_tls_is_wanted() -> None:
    with http_server() as http:
        error = await refusal(Server("h", url=http.url.replace("http:", "https:")))
    assert "TLS" in str(error) or "ssl" in str(error).lower()


async def test_a_refused_credential() -> None:
    with http_server("token=right") as http:
        error = await refusal(http.server(headers={"Authorization": "Bearer canary-wrong"}))
    assert "HTTP status 401" in str(error)
    assert "canary" not in str(error)


async def test_a_server_that_resets_each_connection() -> None:
    with http_server("reset") as http:
        assert "cannot be reached" in str(await refusal(http.server()))


async def test_a_port_that_accepts_and_says_nothing() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/mcp"
        assert "did not come up within 0.5 s" in str(await refusal(Server("h", url=url, connect_timeout=0.5)))


async def test_no_secret_of_the_configuration_is_in_the_error() -> None:
    server = stdio_server("environ=CANARY", "hang-initialize", env={"CANARY": "canary-secret"}, connect_timeout=0.5)
    error = await refusal(server)
    assert "CANARY is [redacted]" in str(error)


async def test_a_transport_that_cannot_be_made() -> None:
    def transport() -> None:
        raise RuntimeError("no transport today")

    assert "no transport today" in str(await refusal(Server("t", transport=transport)))


async def test_what_the_owner_raises_comes_out_as_it_is() -> None:
    class Mine(Exception):
        pass

    with anyio.fail_after(20):
        with pytest.raises(Mine):
            async with open_connection(stdio_server()):
                raise Mine


async def test_a_cancelled_owner_leaves_at_once_while_connecting() -> None:
    with anyio.fail_after(20):
        with anyio.move_on_after(0.3) as scope:
            async with open_connection(stdio_server("hang-initialize")):
                pytest.fail("it opened")
        assert scope.cancelled_caught
