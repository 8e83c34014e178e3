"""Streamable HTTP: sessions, headers, credentials, redirects, and servers that do not answer."""

from __future__ import annotations

import logging
from typing import Any

import anyio
import anyio.to_thread
import httpx2
import pytest

from conduit_actors.connection import open_connection
from conduit_actors.errors import ProtocolError, ServerUnavailable
from conduit_actors.server import Server
from servers import HttpServer, http_server

pytestmark = pytest.mark.anyio


async def log(http: HttpServer, command: str = "log") -> list[dict[str, Any]]:
    return await anyio.to_thread.run_sync(http.admin, command)


async def test_one_session_for_all_calls_and_its_end_at_close() -> None:
    with http_server() as http, anyio.fail_after(30):
        async with open_connection(http.server()) as connection:
            answers = [await connection.call_tool("count", {}, timeout=5) for _ in range(3)]
            session = connection.session_id
        assert [answer["content"][0]["text"] for answer in answers] == ["1", "2", "3"]
        requests = await log(http)
        assert {entry["session"] for entry in requests if entry["method"] == "tools/call"} == {session}
        assert [entry["session"] for entry in requests if entry["verb"] == "DELETE"] == [session]


async def test_the_session_ends_though_the_owner_is_cancelled() -> None:
    with http_server() as http, anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            async with open_connection(http.server()):
                tasks.cancel_scope.cancel()
        with anyio.CancelScope(shield=True):
            assert "DELETE" in [entry["verb"] for entry in await log(http)]


async def test_a_server_that_never_answers_delete_does_not_block_the_close() -> None:
    with http_server("hang-delete") as http, anyio.fail_after(30):
        async with open_connection(http.server()) as connection:
            assert connection.session_id
        assert connection.closed.is_set()


async def test_a_dropped_get_stream_is_opened_again_in_the_same_session() -> None:
    with http_server("drop-get=0.1") as http, anyio.fail_after(30):
        async with open_connection(http.server()) as connection:
            session = connection.session_id
            while [entry["verb"] for entry in await log(http)].count("GET") < 3:
                await anyio.sleep(0.1)
            await connection.call_tool("echo", {"text": "hi"}, timeout=5)
            assert connection.session_id == session
            requests = await log(http)
        assert [entry["method"] for entry in requests].count("initialize") == 1


async def test_a_server_that_never_answers_notifications_holds_nothing_up() -> None:
    with http_server("hang-notices") as http, anyio.fail_after(30):
        async with open_connection(http.server()) as connection:
            # Each leaves a cancellation that is never answered.
            for _ in range(3):
                with anyio.move_on_after(0.2) as scope:
                    await connection.call_tool("wait", {}, timeout=60)
                assert scope.cancelled_caught
            with anyio.fail_after(4):
                await connection.call_tool("echo", {"text": "hi"}, timeout=60)


async def test_headers_are_asked_for_each_request_and_principal() -> None:
    asked = 0

    async def headers(principal: str | None) -> dict[str, str]:
        nonlocal asked
        asked += 1
        return {"X-Who": f"{principal}-{asked}"}

    with http_server() as http, anyio.fail_after(30):
        async with open_connection(http.server(headers=headers), principal="ada") as connection:
            await connection.call_tool("echo", {"text": "hi"}, timeout=5)
        seen = [entry["headers"]["X-Who"] for entry in await log(http)]
    assert len(set(seen)) == len(seen) >= 5
    assert all(who.startswith("ada-") for who in seen)


async def test_a_token_is_refreshed_once_for_all_refused_calls() -> None:
    """F108."""
    asked = 0
    old_for = 1_000
    answers: list[str] = []

    async def token() -> str:
        nonlocal asked
        asked += 1
        mine = asked
        await anyio.sleep(0.2)
        return "old" if mine <= old_for else "new"

    with http_server("token=old") as http, anyio.fail_after(30):
        async with open_connection(http.server(auth=token, health_interval=None)) as connection:
            await log(http, "token?new")
            old_for = asked + 1

            async def call() -> None:
                result = await connection.call_tool("echo", {"text": "hi"}, timeout=10)
                answers.append(result["content"][0]["text"])

            async with anyio.create_task_group() as tasks:
                for _ in range(20):
                    tasks.start_soon(call)
            # Once for the twenty requests, which are refused, and once for their twenty refusals.
            assert asked == old_for + 1
    assert answers == ["hi"] * 20


async def test_a_token_is_asked_for_with_each_request() -> None:
    asked: list[str | None] = []

    def token(principal: str | None) -> str:
        asked.append(principal)
        return "right"

    with http_server("token=right") as http, anyio.fail_after(30):
        async with open_connection(http.server(auth=token, health_interval=None), principal="ada") as connection:
            before = len(asked)
            for _ in range(3):
                await connection.call_tool("echo", {"text": "hi"}, timeout=10)
            assert asked[before:] == ["ada"] * 3


async def test_a_token_that_stays_refused_is_an_error_with_the_status() -> None:
    with http_server("token=right") as http, anyio.fail_after(30):
        async with open_connection(http.server(auth=lambda: "right", health_interval=None)) as connection:
            await log(http, "token?other")
            with pytest.raises(ProtocolError, match="HTTP status 401"):
                await connection.call_tool("echo", {}, timeout=5)


async def test_a_token_provider_that_fails_costs_its_call_only() -> None:
    sealed = False

    def token() -> str:
        if sealed:
            raise RuntimeError("the vault is sealed")
        return "right"

    with http_server("token=right") as http, anyio.fail_after(30):
        async with open_connection(http.server(auth=token, health_interval=None)) as connection:
            sealed = True
            with pytest.raises(ServerUnavailable):
                await connection.call_tool("echo", {}, timeout=5)
            sealed = False
            if not connection.ending.is_set():
                assert await connection.call_tool("echo", {"text": "hi"}, timeout=5)


async def test_an_httpx_auth_object() -> None:
    class Key(httpx2.Auth):
        def auth_flow(self, request: httpx2.Request) -> Any:
            request.headers["Authorization"] = "Bearer right"
            yield request

    with http_server("token=right") as http, anyio.fail_after(30):
        async with open_connection(http.server(auth=Key())) as connection:
            assert connection.tools


async def test_a_redirect_to_another_origin_is_not_followed() -> None:
    with http_server() as other, http_server(f"redirect={other.url}") as http, anyio.fail_after(30):
        with pytest.raises(ServerUnavailable, match=r"[Rr]edirect"):
            async with open_connection(http.server(headers={"Authorization": "Bearer canary"})):
                pytest.fail("it opened")
        assert await log(other) == []


async def test_the_proxy_setting_is_used() -> None:
    with http_server() as http, anyio.fail_after(30):
        with pytest.raises(ServerUnavailable, match="cannot be reached"):
            async with open_connection(http.server(proxy="http://127.0.0.1:9")):
                pytest.fail("it opened")
        assert await log(http) == []


async def test_no_library_logs_a_secret(caplog: pytest.LogCaptureFixture) -> None:
    with http_server() as http, anyio.fail_after(30), caplog.at_level(logging.DEBUG):
        server = Server("h", url=f"{http.url}?key=canary-query", headers={"X-Key": "canary-header"})
        async with open_connection(server) as connection:
            await connection.call_tool("echo", {"text": "hi"}, timeout=5)
            await anyio.to_thread.run_sync(http.kill)
            with pytest.raises(ServerUnavailable) as caught:
                await connection.call_tool("echo", {}, timeout=5)
    assert "HTTP Request: POST" in caplog.text
    assert "canary" not in caplog.text
    assert "canary" not in str(caught.value)


async def test_answers_as_event_streams() -> None:
    with http_server("sse") as http, anyio.fail_after(30):
        async with open_connection(http.server()) as connection:
            result = await connection.call_tool("echo", {"text": "hi"}, timeout=5)
    assert result["content"][0]["text"] == "hi"


async def test_a_connection_error_is_not_logged_as_an_error(caplog: pytest.LogCaptureFixture) -> None:
    with http_server() as http, anyio.fail_after(30):
        async with open_connection(http.server()) as connection:
            await anyio.to_thread.run_sync(http.kill)
            with pytest.raises(ServerUnavailable):
                await connection.call_tool("echo", {}, timeout=5)
    assert [record for record in caplog.records if record.levelname in ("ERROR", "CRITICAL")] == []
