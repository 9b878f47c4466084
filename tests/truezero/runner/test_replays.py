"""`truezero drill --like`: what a provider did to a rollout, played again from its exchanges."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from pydantic import ValidationError

from proxy.wire.provider_error import retry_after
from tests.answers.table import DOCUMENTED, Answer
from tests.fakes import caller
from tests.features.drills.test_faults import CALLS
from tests.proxy.api.test_routes import Service, serving
from tests.truezero.cli.test_cli import truezero
from tests.truezero.runner.test_drills import AGENT
from truezero import Client, models
from truezero.runner import drills, replays
from truezero.runner.drills import DRILLS, Plan

STAYS_S = 0.3  # an agent's patience with a provider that says nothing


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("replays")
    upstreams = {f"UPSTREAM_{name}": "http://127.0.0.1:9" for name in ("ANTHROPIC", "GEMINI")}
    with serving(folder, **upstreams) as running_service:
        yield running_service


@pytest.fixture(autouse=True)
def _unasked(house: Service) -> None:
    house.provider.requests.clear()


@pytest.fixture
def client(house: Service) -> Iterator[Client]:
    with Client(str(house.http.base_url)) as asking:
        yield asking


def judged(client: Client, fault: models.Fault, call: str, calls: int) -> models.Verdict:
    """Let an agent without retries meet a fault, and return the verdict."""
    registered = client.register(model="gpt-5", fault=fault.model_dump())
    upstream, path, body, _ = CALLS[call]
    url = registered.base_urls[upstream].removesuffix("/v1") + path
    padded = {**body, "user": "x" * 20_000}  # long enough for a prompt to be cut
    for _ in range(calls):
        with contextlib.suppress(httpx.TransportError):
            caller.post(url, json=padded, timeout=STAYS_S if fault_hangs(fault) else 60)
    return client.ended(registered.id, termination_reason="agent_stop", prompts_executed=1)[1]


def fault_hangs(fault: models.Fault) -> bool:
    silent = [call for call in fault.calls if call.status is None]
    return fault.kind == "hang" or any(call.ending == "left_by_agent" for call in silent)


def meaning(verdict: models.Verdict) -> dict[str, Any]:
    """Return all of a verdict that is not an id, a time or a digest."""
    return {
        "health": verdict.health,
        "subcategory": verdict.subcategory,
        "rule": verdict.rule,
        "scoreable": verdict.scoreable,
        "fingerprint": verdict.fingerprint,
        "retry": verdict.retry.eligible,
        "validity": [(found.check, found.level) for found in verdict.validity],
    }


# Each drill in one dialect or another; every drill in every dialect is slow.
_DIAGONAL = [(call, [*DRILLS][at :: len(CALLS)]) for at, call in enumerate(CALLS)]


@pytest.mark.parametrize(
    ("call", "names"),
    [
        *(pytest.param(call, names, id=call) for call, names in _DIAGONAL),
        *(pytest.param(c, [*DRILLS], id=f"{c} all", marks=pytest.mark.slow) for c in CALLS),
    ],
)
def test_a_replay_is_judged_as_its_rollout_was(
    house: Service, client: Client, call: str, names: list[str]
) -> None:
    for name in names:
        scenario = DRILLS[name]
        answered_before = scenario.at_call is not None
        if answered_before and CALLS[call][0] != "openai":  # nobody answers these two
            fault = models.Fault(kind="replay", calls=[
                models.ReplayedCall(status=200),
                models.ReplayedCall(status=429, subcategory="quota", error_code="no_credit"),
            ])  # fmt: skip
        else:
            fault = scenario.model_copy(update={"delay_s": 0.01})
        calls = scenario.at_call or 1
        first = judged(client, fault, call, calls)
        original = replays.replayed(client, first.rollout_id)
        assert len(original.calls) == calls, name
        house.provider.requests.clear()
        again = judged(client, original.fault(), call, calls)
        assert meaning(again) == meaning(first), name
        (*_, exchange) = client.exchanges(again.rollout_id)
        assert exchange.injected, name
        assert house.provider.requests == [], "the provider was asked"


# --- every error that the cause table was written after ------------------------------------------


def recorded(sample: Answer) -> dict[str, Any]:
    """Return what REST shows of a call that failed so; of its message nothing."""
    cause = sample.observed().cause
    assert cause is not None, sample.fact
    return {
        "status": sample.status, "ending": "complete", "first_byte_s": 0.0, "duration_s": 0.0,
        "model": "gpt-5", "subcategory": cause.subcategory.value, "reason": cause.reason,
        "rule": cause.rule, "error_code": cause.code, "retry_after_s": cause.retry_after_s,
        "finish_reason": None, "request_bytes": 100, "input_total": None, "output_total": None,
    }  # fmt: skip


@pytest.mark.parametrize("stated", [b"99999999999", b"9" * 300, b"1e300", b"-1"])
def test_a_wait_of_any_length_is_replayed(stated: bytes) -> None:
    wait_s = retry_after([(b"retry-after", stated)], now=1.8e9)
    call = recorded(DOCUMENTED[0]) | {"retry_after_s": wait_s}
    played = replays.replayed_call(call)
    assert (wait_s is None) == (played.retry_after_s is None)
    assert (played.retry_after_s or 0.0) == min(wait_s or 0.0, models.LONGEST_STATED_S)
    models.Fault(kind="replay", calls=[played])


@pytest.mark.slow
@pytest.mark.parametrize("call", ["responses-stream", "gemini"])
def test_an_error_of_every_kind_means_the_same_without_its_words(
    house: Service, client: Client, call: str
) -> None:
    first = [recorded(sample) for sample in DOCUMENTED]
    fault = models.Fault(kind="replay", calls=[replays.replayed_call(each) for each in first])
    registered = client.register(fault=fault.model_dump())
    upstream, path, body, _ = CALLS[call]
    url = registered.base_urls[upstream].removesuffix("/v1") + path
    for _ in first:
        caller.post(url, json=body)
    client.ended(registered.id, prompts_executed=1)
    played = client.exchanges(registered.id)
    differing = {
        sample.fact
        for sample, was, now in zip(DOCUMENTED, first, played, strict=True)
        if now.subcategory != was["subcategory"]
    }
    assert differing == ONLY_THEIR_WORDS_SAY


ONLY_THEIR_WORDS_SAY = {
    "OpenAI: a rate limit of which one request asks for more than all of it",
    "a request larger than a minute's tokens never fits",
    "ollama: an image it cannot decode is a 500 and the caller's",
    "llama.cpp: an input beyond the batch is a 500",
    "llama.cpp: a chat template that refuses is a 500",
    "dashscope: insufficient_quota is its tokens a minute",
    "a turn budget named in a sentence alone",
    "Harbor's token is one of a rollout that is over",
    "Harbor's relay is full, in a name that providers have too",
    "an account that was not verified, by the code of a value",
}


# --- what is played ---------------------------------------------------------------------------


def asked(client: Client, *calls: models.ReplayedCall, times: int) -> list[int]:
    fault = models.Fault(kind="replay", calls=list(calls))
    registered = client.register(fault=fault.model_dump())
    url = registered.base_urls["openai"] + "/chat/completions"
    return [caller.post(url, json=CALLS["chat"][2]).status_code for _ in range(times)]


GOOD = models.ReplayedCall(status=200)
BUSY = models.ReplayedCall(status=503, subcategory="provider_error")


def test_the_last_call_is_played_over_and_over(client: Client) -> None:
    assert asked(client, GOOD, BUSY, times=4) == [200, 503, 503, 503]


def test_good_answers_can_be_the_providers_own(house: Service, client: Client) -> None:
    good = {**recorded(DOCUMENTED[0]), "subcategory": None, "status": 200}
    bad = {**good, "status": 503, "subcategory": "provider_error", "rule": "status.overloaded"}
    calls = [replays.replayed_call(each, live=True) for each in (good, bad, good)]
    assert asked(client, *calls, times=3) == [200, 503, 200]
    assert len(house.provider.requests) == 2


def test_waits_are_those_of_the_rollout_up_to_a_bound(client: Client) -> None:
    slow = {**recorded(DOCUMENTED[0]), "first_byte_s": 0.2, "duration_s": 90.0, "status": 503}
    played = replays.replayed_call(slow, wait_at_most_s=0.3)
    assert (played.first_byte_s, played.duration_s) == (0.2, 0.3)
    fault = models.Fault(kind="replay", calls=[played])
    registered = client.register(fault=fault.model_dump())
    caller.post(registered.base_urls["openai"] + "/chat/completions", json=CALLS["chat"][2])
    (call,) = client.exchanges(registered.id)
    assert call.first_byte_s is not None
    assert call.first_byte_s >= 0.15
    assert call.duration_s is not None
    assert call.duration_s >= 0.25


def test_no_sentence_can_be_stored_in_a_replay() -> None:
    for field in ("error_code", "reason"):
        with pytest.raises(ValidationError, match="pattern"):
            models.ReplayedCall.model_validate({"status": 400, field: "my secret prompt"})
    with pytest.raises(ValidationError, match="Extra inputs"):
        models.ReplayedCall.model_validate({"status": 400, "message": "my secret prompt"})


def test_a_rollout_without_calls_cannot_be_played(client: Client) -> None:
    empty = client.register()
    with pytest.raises(replays.NotReplayable, match=f"{empty.id}: its agent made no call"):
        replays.replayed(client, empty.id)


@pytest.mark.slow
def test_the_command_says_how_the_agent_reacts_and_how_it_was_judged(
    house: Service, client: Client, tmp_path: Path
) -> None:
    agent = tmp_path / "agent.py"
    agent.write_text(AGENT, encoding="utf-8")
    command = (sys.executable, "-S", str(agent), "quiet", "1", "1")
    (first,) = drills.run(Plan(command=command, drills=("truncation",)), client)
    ran = ("drill", "--like", first.rollout_id)
    url = str(house.http.base_url)
    said = truezero(*ran, "--", *command, folder=tmp_path, TRUEZERO_URL=url)
    assert f"like {first.rollout_id}" in " ".join(said.stdout.split())
    assert "hid the failure" in said.stdout
    assert f"Judged as {first.rollout_id} was: api_error provider_error." in said.stdout
    refused = truezero(*ran, "--fault", "auth", "--", *command, folder=tmp_path, TRUEZERO_URL=url)
    assert (refused.returncode, "do not go with it" in refused.stderr) == (2, True)


@pytest.mark.slow
def test_a_reaction_to_a_replay_is_told_beside_the_verdict_of_its_rollout(
    client: Client, tmp_path: Path
) -> None:
    agent = tmp_path / "agent.py"
    agent.write_text(AGENT, encoding="utf-8")
    command = (sys.executable, "-S", str(agent), "quiet", "2", "1")
    for name, conduct in (
        ("mid_run_quota", "hid the failure"),
        ("abort", "took it for good"),
        ("slow", "recovered"),
    ):
        plan = Plan(command=command, drills=(name,), delay_s=0.01)
        (first,) = drills.run(plan, client)
        again = drills.replay(plan, replays.replayed(client, first.rollout_id), client)
        assert again.conduct == conduct, name
        assert again.struck == (1 if name == "mid_run_quota" else 2), name
        assert drills.record(again)["original"]["rollout_id"] == first.rollout_id
