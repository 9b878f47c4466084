"""Labelled answers and lives through the running proxy, judged as labelled and as in memory.

One of each family, where every call ends by itself: each byte is relayed as it came.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache

import httpx
import pytest

from classifier.verdicts import Verdict
from tests.fakes.provider import Answer, Provider
from tests.journeys.service import Service
from tests.labelled import play, score
from tests.labelled.play import Played
from tests.labelled.score import Case

CASES = (
    "empty-object/chat/alone",
    "ok-text/messages/end2",
    "lambda-timeout/responses/end",
    "minimax-balance/gemini/stream",
    "says-json-error/chat/alone",
    "databricks/alone",
    "databricks-fails-1/end",
    "clova/twice",
    "tgi/alone",
    "registered-minimax/twice",
    "posthog/beside",
    "firecrawl/alone",
    "retry-429/chat",
    "dead-main-quota/messages",
    "bare-404-twice/gemini",
    "lost-state-at-end/responses",
    "unread-twice-at-end/chat",
    "batch-lines/chat",
    "background/responses",
    "native-retries/chat",
    "run/chat",
    "task-failed/chat",
    "own-subscription/chat",
)


@cache
def _known() -> Mapping[str, Case]:
    return {case.id: case for cases in score.SETS.values() for case in cases()}


@pytest.fixture(scope="module")
def provider() -> Iterator[Provider]:
    with Provider() as running:
        yield running


@pytest.fixture(scope="module")
def service(provider: Provider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    upstreams = sorted({call.upstream for name in CASES for call in _known()[name].calls})
    faked = {f"UPSTREAM_{name.upper().replace('-', '_')}": provider.url for name in upstreams}
    with Service(tmp_path_factory.mktemp("labelled"), provider.url, **faked) as running:
        yield running


@pytest.mark.parametrize("name", CASES)
def test_the_service_judges_as_labelled(name: str, service: Service, provider: Provider) -> None:
    case, rollout = _known()[name], name.replace("/", "-")
    service.register(id=rollout, **(case.registered or {}))
    with httpx.Client(timeout=60, trust_env=False) as client:
        for call in case.calls:
            _relay(client, service, provider, rollout, call)
    service.outcome(
        rollout, status="success", termination_reason="agent_stop", prompts_executed=1,
        rewards={"reward": 0.0},
    )  # fmt: skip
    told = service.verdict(rollout)
    ids = [None, *(call["id"] for call in service.exchanges(rollout))]
    proof = told["proof"] and [told["proof"]["source"]] + [
        ids.index(told["proof"][which]) for which in ("first", "last")
    ]
    in_memory = play.play(case.calls, outcome=case.outcome, registered=case.registered)
    found = [told["health"], told["rule"], told["scoreable"], told["subcategory"], proof]
    assert found == _facts(in_memory.verdict)
    assert score.score([case]).misses == ()


def _relay(
    client: httpx.Client, service: Service, provider: Provider, rollout: str, call: Played
) -> None:
    headers = tuple((n.decode(), v.decode("latin-1")) for n, v in call.headers)
    provider.plays(Answer(status=call.status or 0, headers=headers, body=call.body))
    query = f"?{call.query}" if call.query else ""
    url = service.base(rollout, call.upstream) + call.path + query
    asked = {n.decode(): v.decode() for n, v in call.request_headers}
    own = {"authorization": "Bearer sk-labelled", "content-type": "application/json"}
    with client.stream(call.method, url, content=call.request, headers=own | asked) as got:
        assert b"".join(got.iter_raw()) == b"".join(call.body)


def _facts(verdict: Verdict) -> list[object]:
    proof: list[object] | None = None
    if verdict.proof is not None:
        calls = [verdict.proof.first, verdict.proof.last]
        places = [0 if each is None else int(each.removeprefix("call-")) + 1 for each in calls]
        proof = [verdict.proof.source.value, *places]
    return [
        verdict.health.value, verdict.rule, verdict.scoreable,
        verdict.subcategory and verdict.subcategory.value, proof,
    ]  # fmt: skip
