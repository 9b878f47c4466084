"""Minted keys: each opens the calls of one rollout, at its upstream, until its end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from classifier.records import Attribution
from proxy.relay.admission import TTL_S, Access, AccessState, AccessUnknownError
from proxy.routing.errors import Refusal
from proxy.routing.keys import AGENT
from proxy.routing.target import Target
from proxy.routing.upstreams import BUILT_IN
from proxy.server.background import EndedRollouts
from tests.proxy import inside
from tests.proxy.api.test_routes import ASK, CHAT, PLAIN, Service, problem, serving
from tests.proxy.clocks import HandTurned
from tests.proxy.conftest import Services

ENDED = {"status": "success", "termination_reason": "agent_stop", "prompts_executed": 1}


@pytest.fixture
def service(on_both: Callable[..., Service]) -> Service:
    return on_both()


@pytest.fixture
def holding(services: Services) -> Service:
    """A service that holds the real keys of three providers, all one fake."""
    return services(
        upstreams=("OPENAI", "ANTHROPIC", "GEMINI"),
        KEY_OPENAI="sk-real", KEY_ANTHROPIC="sk-ant-real", KEY_GEMINI="goog-real",
    )  # fmt: skip


def register(service: Service, **facts: Any) -> dict[str, Any]:
    answer = service.http.post("/rollouts", json=facts)
    assert answer.status_code == 201, answer.text
    registered: dict[str, Any] = answer.json()
    return registered


def by_key(service: Service, key: str, upstream: str = "openai", path: str = CHAT) -> Any:
    headers = {"authorization": f"Bearer {key}"}
    return service.http.post(f"/{upstream}{path}", json=ASK, headers=headers)


def end(service: Service, rollout: str) -> None:
    answer = service.http.post(f"/rollouts/{rollout}/outcome", json=ENDED)
    assert answer.status_code == 200, answer.text


def calls(service: Service, rollout: str) -> int:
    return len(service.get(f"/rollouts/{rollout}/exchanges")["items"])


# --- what a key opens -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("upstream", "path", "shown", "sent"),
    [
        ("openai", CHAT, "authorization", ("authorization", "Bearer sk-real")),
        ("anthropic", "/v1/messages", "x-api-key", ("x-api-key", "sk-ant-real")),
        (
            "gemini", "/v1beta/models/g:generateContent", "x-goog-api-key",
            ("x-goog-api-key", "goog-real"),
        ),
        ("anthropic", "/v1/messages", "authorization", ("x-api-key", "sk-ant-real")),
    ],
)  # fmt: skip
def test_a_key_is_taken_where_each_provider_has_its_own_and_becomes_the_real_one(
    holding: Service, upstream: str, path: str, shown: str, sent: tuple[str, str]
) -> None:
    registered = register(holding, id="r")
    value = registered["key"]
    value = f"Bearer {value}" if shown == "authorization" else value
    answer = holding.http.post(f"/{upstream}{path}", json=ASK, headers={shown: value})
    assert answer.status_code == 200, answer.text
    (seen,) = holding.provider.requests
    assert seen.header(sent[0]) == sent[1]
    assert not any("tz-" in header for _, header in seen.headers)
    assert calls(holding, "r") == 1


def test_a_key_opens_only_the_upstream_its_rollout_was_registered_for(holding: Service) -> None:
    bound = register(holding, upstream="OpenAI")
    assert by_key(holding, bound["key"]).status_code == 200
    other = by_key(holding, bound["key"], "anthropic", "/v1/messages")
    assert "'openai'" in problem(other, 403, "upstream_not_allowed")["detail"]
    assert calls(holding, bound["id"]) == 1
    free = register(holding)
    assert by_key(holding, free["key"], "anthropic", "/v1/messages").status_code == 200


def test_a_key_ends_with_its_rollout(service: Service) -> None:
    registered = register(service)
    assert by_key(service, registered["key"]).status_code == 200
    end(service, registered["id"])
    problem(by_key(service, registered["key"]), 403, "rollout_ended")
    assert calls(service, registered["id"]) == 1
    assert len(service.provider.requests) == 1


def test_a_key_shown_beside_the_path_ends_too(service: Service) -> None:
    registered = register(service, id="r")
    end(service, "r")
    key = f"Bearer {registered['key']}"
    problem(service.call("r", authorization=key), 403, "rollout_ended")


def test_the_secret_in_a_base_url_ends_too(services: Services) -> None:
    service = services(ADMIN_TOKEN="s3cret-token")
    service.http.headers["authorization"] = "Bearer s3cret-token"
    registered = register(service)
    url = registered["base_urls"]["openai"] + "/chat/completions"
    assert httpx.post(url, json=ASK, verify=PLAIN).status_code == 200
    end(service, registered["id"])
    problem(httpx.post(url, json=ASK, verify=PLAIN), 403, "rollout_ended")
    assert calls(service, registered["id"]) == 1


def test_the_bare_path_of_a_single_user_goes_on(service: Service) -> None:
    register(service, id="r")
    end(service, "r")
    assert service.call("r").status_code == 200


def test_an_agents_own_key_is_none_of_ours(service: Service) -> None:
    register(service, id="r")
    end(service, "r")
    assert service.call("r", authorization="Bearer sk-own").status_code == 200


@pytest.mark.postgres_smoke
def test_another_process_sees_an_end_within_the_ttl(
    service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its clock is turned by hand: what it looked up stands for the TTL and no longer.

    Its closer, which would tell it sooner, is kept still.
    """

    async def nothing(closer: EndedRollouts) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(EndedRollouts, "run", nothing)
    one = service
    with serving(tmp_path, DATABASE_URL=service.database) as other:
        assert other.app is not None
        clock = HandTurned()
        inside.access(other.app)._clock = clock  # noqa: SLF001  its clock is turned by hand
        registered = register(one)
        assert by_key(other, registered["key"]).status_code == 200
        end(one, registered["id"])
        clock.now += TTL_S - 0.01
        assert by_key(other, registered["key"]).status_code == 200, "as it was looked up"
        clock.now += 0.02
        problem(by_key(other, registered["key"]), 403, "rollout_ended")


# --- what looking up costs ------------------------------------------------------------------


def target(rollout: str = "r", *, proven: bool = True, upstream: str = "openai") -> Target:
    return Target(
        rollout_id=rollout,
        upstream=BUILT_IN[upstream],
        role=AGENT,
        path=CHAT.encode(),
        query=b"",
        attribution=Attribution.PATH,
        proven=proven,
    )


RULE: Any = object()


class Clock:
    """Standings over a store that is a dictionary, with hands that a test turns."""

    def __init__(self, **stored: AccessState) -> None:
        self.stored = stored
        self.now = 100.0
        self.lookups = 0
        self.away = False
        self.standings = Access(
            look_up=self._look_up,
            answered=lambda *_: False,
            wall=self._time,
            clock=self._time,
        )

    def _time(self) -> float:
        return self.now

    def _look_up(self, rollout_id: str) -> AccessState | None:
        self.lookups += 1
        self._there()
        return self.stored.get(rollout_id)

    def _count(self, _rollout_id: str) -> int:
        self._there()
        return 1

    def _there(self) -> None:
        if self.away:
            raise AccessUnknownError


async def passes(standings: Access, one: Target) -> str | None:
    try:
        await standings.admit(one)
    except Refusal as refusal:
        return refusal.code
    return None


async def test_a_bare_call_concerns_nobody_and_is_never_looked_up() -> None:
    clock = Clock(r=AccessState(ends_at=0.0))
    assert not clock.standings.concerns(target(proven=False))
    assert await passes(clock.standings, target(proven=False)) is None
    assert clock.lookups == 0


async def test_a_watched_rollouts_bare_calls_are_looked_up() -> None:
    clock = Clock(r=AccessState(rules={RULE: "known"}))
    clock.standings.watch({"r"})
    assert clock.standings.concerns(target(proven=False))
    assert await clock.standings.rules(target(proven=False)) == {RULE: "known"}
    clock.standings.watch(())
    assert not clock.standings.concerns(target(proven=False))


async def test_a_key_is_looked_up_once_a_second() -> None:
    clock = Clock(r=AccessState())
    for _ in range(5):
        assert await passes(clock.standings, target()) is None
    assert clock.lookups == 1
    clock.now += TTL_S
    assert await passes(clock.standings, target()) is None
    assert clock.lookups == 2


async def test_many_calls_at_once_share_one_look_up() -> None:
    clock = Clock(r=AccessState())
    await asyncio.gather(*(passes(clock.standings, target()) for _ in range(50)))
    assert clock.lookups == 1


async def test_what_changed_here_is_looked_up_at_once() -> None:
    clock = Clock(r=AccessState())
    assert await passes(clock.standings, target()) is None
    clock.stored["r"] = AccessState(ends_at=clock.now)
    assert await passes(clock.standings, target()) is None, "another process may lag a second"
    clock.standings.changed("r")
    assert await passes(clock.standings, target()) == "rollout_ended"


async def test_a_database_that_is_away_leaves_things_as_they_were() -> None:
    clock = Clock(ended=AccessState(ends_at=1.0), bound=AccessState(upstream="openai"))
    await passes(clock.standings, target("ended"))
    await passes(clock.standings, target("bound"))
    clock.away = True
    clock.now += 60
    assert await passes(clock.standings, target("ended")) == "rollout_ended"
    elsewhere = target("bound", upstream="anthropic")
    assert await passes(clock.standings, elsewhere) == "upstream_not_allowed"
    assert await passes(clock.standings, target("never-seen")) is None, "agents are served"


async def test_an_end_in_the_future_is_none_yet() -> None:
    clock = Clock(r=AccessState(ends_at=110.0))
    assert await passes(clock.standings, target()) is None
    clock.now = 110.0
    assert await passes(clock.standings, target()) == "rollout_ended"


async def test_an_unknown_rollout_passes() -> None:
    assert await passes(Clock().standings, target()) is None
