"""Attacks on the operator's key: being in its place, taking it along, choosing who pays."""

from __future__ import annotations

import base64

from tests.arena.world import OPERATOR
from tests.attack.claims import claim
from tests.attack.stage import BOGUS, Stage, names, only_operators

_KEYS = (
    f"Authorization: Bearer {BOGUS}", f"authorization: {BOGUS}", f"X-Api-Key: {BOGUS}",
    f"api-key: {BOGUS}", f"x-goog-api-key: {BOGUS}", f"x_api_key: {BOGUS}", f"Cookie: key={BOGUS}",
    f"X-Auth-Token: {BOGUS}", f"Proxy-Authorization: Bearer {BOGUS}",
    f"ocp-apim-subscription-key: {BOGUS}", f"helicone-auth: Bearer {BOGUS}",
)  # fmt: skip


@claim("a bogus key on its last call does not make a rollout fail")
def bogus_key_on_the_last_call(stage: Stage) -> None:
    stage.provider.plays(only_operators)
    rollout = stage.rollout()
    assert stage.chat(rollout).status == 200
    assert stage.chat(rollout, f"Authorization: Bearer {BOGUS}").status == 200
    verdict = stage.judged(rollout)
    assert (verdict["health"], verdict["failed_requests"]) == ("healthy", 0), verdict


@claim("no header takes an agent's key to a provider whose key the operator has")
def key_in_another_header(stage: Stage) -> None:
    stage.provider.plays(only_operators)
    rollout = stage.rollout()
    for header in _KEYS:
        assert stage.chat(rollout, header).status == 200, header
    gemini = "gemini/v1beta/models/g:generateContent"
    for upstream, where in (("anthropic/v1/messages", "x-api-key"), (gemini, "x-goog-api-key")):
        stage.provider.requests.clear()
        stage.call(f"{rollout.path}/{upstream}", *_KEYS)
        (request,) = stage.provider.requests
        assert request.header(where) == OPERATOR
        assert not any(BOGUS in value for _, value in request.headers), request.headers


@claim("no query takes an agent's key to such a provider")
def key_in_the_query(stage: Stage) -> None:
    stage.provider.plays(only_operators)
    rollout = stage.rollout()
    for query in ("?key={}", "?api_key={}", "?k%65y={}", "?KEY={}", "?a=b;key={}", "?key={}&key={}",
                  "?a=1&api-key={}", "?access_token={}", "?%24httpHeaders=x:{}"):  # fmt: skip
        filled = query.replace("{}", BOGUS)
        assert stage.chat(rollout, query=filled).status == 200, filled


@claim("no WebSocket subprotocol takes an agent's key to such a provider")
def key_in_a_subprotocol(stage: Stage) -> None:
    rollout = stage.rollout()
    nonce = base64.b64encode(b"0123456789abcdef").decode()
    stage.call(
        f"{rollout.path}/openai/v1/realtime?model=gpt-realtime", "Connection: Upgrade",
        "Upgrade: websocket", "Sec-WebSocket-Version: 13", f"Sec-WebSocket-Key: {nonce}",
        f"Sec-WebSocket-Protocol: realtime, openai-insecure-api-key.{BOGUS}",
        "Sec-WebSocket-Protocol: openai-organization.org-other",
        method="GET",
    )  # fmt: skip
    (request,) = stage.provider.requests
    assert request.header("authorization") == f"Bearer {OPERATOR}"
    assert BOGUS not in str(request.headers)
    assert "org-other" not in str(request.headers)


@claim("an agent chooses no organization, project or payer for the operator's key")
def account_selectors(stage: Stage) -> None:
    selectors = ("openai-organization", "OpenAI_Project", "x-goog-user-project", "x-hf-bill-to",
                 "x-http-method-override")  # fmt: skip
    assert stage.chat(stage.rollout(), *(f"{name}: other" for name in selectors)).status == 200
    assert not names(stage.provider.requests) & {name.lower() for name in selectors}


@claim("a Connection header does not take the operator's key off a call")
def connection_names_the_key(stage: Stage) -> None:
    stage.provider.plays(only_operators)
    assert stage.chat(stage.rollout(), "Connection: authorization, x-api-key").status == 200


@claim("the operator's key comes back to no agent")
def key_in_what_an_agent_sees(stage: Stage) -> None:
    rollout = stage.rollout()
    seen = [
        stage.chat(rollout),
        stage.call(f"{rollout.path}/openai/v1/files"),
        stage.call(f"{rollout.path}/openai/v1/models", method="GET"),
        stage.call(f"{rollout.path}/nobody/v1/models", method="GET"),
        stage.chat(rollout, "Expect: nonsense"),
        stage.chat(rollout, method="TRACE"),
    ]
    assert not any(OPERATOR in each.head or OPERATOR.encode() in each.body for each in seen)
    assert OPERATOR not in stage.service.log()
