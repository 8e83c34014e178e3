"""What the official MCP conformance suite drives: ``python client.py URL``, built on `conduit_actors.Client`.

The suite names the scenario in ``MCP_CONFORMANCE_SCENARIO`` and gives credentials in ``MCP_CONFORMANCE_CONTEXT``. The
OAuth flows are the SDK's; `Server(auth=...)` takes them as they are. `test_conformance.py` starts the suite.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any
from urllib.parse import parse_qs, urlsplit

import anyio
import httpx2
import mcp_types as types
from mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider
from mcp.client.auth.extensions.client_credentials import (
    ClientCredentialsOAuthProvider,
    PrivateKeyJWTOAuthProvider,
    SignedJWTParameters,
)
from mcp.shared.auth import OAuthClientInformationFull, OAuthClientMetadata, OAuthToken

from conduit_actors import Client, RestartPolicy, Server
from conduit_actors.errors import ConduitError

SCENARIO = os.environ.get("MCP_CONFORMANCE_SCENARIO", "")
CONTEXT: dict[str, Any] = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT", "{}"))
ONCE = RestartPolicy(max_restarts=0)
REDIRECT = "http://localhost:3030/callback"
CLIENT_METADATA = "https://conformance-test.local/client-metadata.json"
SAMPLES: dict[str, Any] = {"string": "text", "integer": 5, "number": 5, "boolean": True, "array": [], "object": {}}


class Storage:
    """Tokens and the client's registration, in memory."""

    def __init__(self, client: OAuthClientInformationFull | None) -> None:
        self.tokens: OAuthToken | None = None
        self.client = client

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info


class Browser:
    """The user's browser: it follows the authorisation URL to where the code is handed out."""

    def __init__(self) -> None:
        self._answer: dict[str, list[str]] = {}

    async def open(self, url: str) -> None:
        async with httpx2.AsyncClient() as client:
            response = await client.get(url, follow_redirects=False)
        self._answer = parse_qs(urlsplit(response.headers["location"]).query)

    async def result(self) -> AuthorizationCodeResult:
        first = {name: values[0] for name, values in self._answer.items()}
        return AuthorizationCodeResult(code=first["code"], state=first.get("state"), iss=first.get("iss"))


def auth(url: str) -> httpx2.Auth | None:
    """What the scenario wants for credentials."""
    if not SCENARIO.startswith("auth/"):
        return None
    if SCENARIO == "auth/client-credentials-basic":
        return ClientCredentialsOAuthProvider(url, Storage(None), CONTEXT["client_id"], CONTEXT["client_secret"])
    if SCENARIO == "auth/client-credentials-jwt":
        parameters = SignedJWTParameters(
            issuer=CONTEXT["client_id"],
            subject=CONTEXT["client_id"],
            signing_key=CONTEXT["private_key_pem"],
            signing_algorithm=CONTEXT["signing_algorithm"],
        )
        provider = parameters.create_assertion_provider()
        return PrivateKeyJWTOAuthProvider(url, Storage(None), CONTEXT["client_id"], provider)
    known = None
    if "client_id" in CONTEXT:
        known = OAuthClientInformationFull.model_validate(
            {**CONTEXT, "redirect_uris": [REDIRECT], "token_endpoint_auth_method": "client_secret_basic"}
        )
    browser = Browser()
    metadata = OAuthClientMetadata.model_validate(
        {
            "client_name": "conduit-actors",
            "redirect_uris": [REDIRECT],
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
        }
    )
    return OAuthClientProvider(
        url,
        metadata,
        Storage(known),
        redirect_handler=browser.open,
        callback_handler=browser.result,
        client_metadata_url=CLIENT_METADATA,
    )


async def accept_defaults(context: Any, params: Any) -> types.ElicitResult:
    """The user accepts the form as it is, with its defaults."""
    properties: dict[str, Any] = params.requested_schema.get("properties", {})
    content = {name: schema["default"] for name, schema in properties.items() if "default" in schema}
    return types.ElicitResult(action="accept", content=content)


def sample(schema: dict[str, Any]) -> dict[str, Any]:
    """Arguments that fit a simple schema."""
    made: dict[str, Any] = {}
    for name, entry in schema.get("properties", {}).items():
        if "enum" in entry:
            made[name] = entry["enum"][0]
        elif "default" in entry:
            made[name] = entry["default"]
        elif entry.get("type") in SAMPLES:
            made[name] = SAMPLES[entry["type"]]
    return made


def calls(names: dict[str, dict[str, Any]]) -> list[tuple[str, dict[str, Any]]]:
    """Which tools are called, with what."""
    given = CONTEXT.get("toolCalls")
    if given is not None:
        return [(entry["name"], entry.get("arguments") or {}) for entry in given]
    made = [(name, sample(schema)) for name, schema in names.items()]
    if "json_schema_echo" in names:  # shows the suite which parts of a schema got through
        made.append(("json_schema_echo", {"schema": names["json_schema_2020_12_tool"]}))
    return made


async def main() -> None:
    url = sys.argv[1]
    server = Server("conformance", url=url, auth=auth(url), elicitation=accept_defaults, validate=False, restart=ONCE)
    async with Client("conformance", server) as client:
        status = await client.wait_ready(timeout=30)
        if status["conformance"].state != "ready":
            sys.exit(f"not connected: {status['conformance'].last_error}")
        toolset = await client.list_tools()
        failed = False
        for name, arguments in calls({tool.name: dict(tool.input_schema) for tool in toolset}):
            try:
                print(name, await client.call_tool(name, arguments, call_timeout=30))
            except ConduitError as error:
                failed = True
                print(name, error.code, error)
        if failed:
            sys.exit("a call failed")


anyio.run(main)
