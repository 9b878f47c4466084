"""Reference calls of a running service: when they are asked, and what they leave behind."""

from __future__ import annotations

import html
import itertools
import json
import sqlite3
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from classifier.__main__ import judge_export
from classifier.codec import encode_verdict
from tests.fakes import answers
from tests.fakes.answers import Api, Fault
from tests.fakes.provider import Answer, Provider, Request, Wait
from tests.journeys.service import Service
from tests.postgres import Server
from tests.waiting import until

ASK = {"model": "gpt-5", "messages": [{"role": "user", "content": "Is the zero true?"}]}
FAILURES = answers.FAILURES[Api.CHAT]
_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def service(_provider: Provider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    home = tmp_path_factory.mktemp("references")
    keys = {"KEY_OPENAI": "sk-operator", "KEY_ANTHROPIC": "sk-operator"}
    with Service(home, _provider.url, AGENTS="untrusted", **keys) as running:
        yield running


@pytest.fixture
def model() -> str:
    """A model of its own: series of one lane are spaced."""
    return f"model-{next(_numbers)}"


def is_question(request: Request) -> bool:
    return b"Reply with the word ready." in request.body


def questions(provider: Provider) -> list[Request]:
    return [request for request in provider.requests if is_question(request)]


def call(service: Service, rollout: str, model: str) -> int:
    url = service.base(rollout, "openai") + "/v1/chat/completions"
    return httpx.post(url, json={**ASK, "model": model}, timeout=60).status_code


def read(service: Service, query: str, *args: Any) -> list[tuple[Any, ...]]:
    with sqlite3.connect(f"file:{service.database}?mode=ro", uri=True) as database:
        return database.execute(query, args).fetchall()


def series(service: Service, model: str) -> list[tuple[Any, ...]]:
    return read(
        service,
        "SELECT ended_at IS NOT NULL, not_run, calls FROM reference_series WHERE model = ? "
        "ORDER BY started_at",
        model,
    )


def shared(service: Service, rollout: str) -> int:
    """How many of a rollout's failed calls have a series."""
    query = "SELECT count(*) FROM reference_failures WHERE rollout_id = ?"
    return int(read(service, query, rollout)[0][0])


def outcome(service: Service, rollout: str) -> dict[str, Any]:
    return service.outcome(rollout, status="success", rewards={"score": 0.0})


def failing_for_agents(request: Request) -> Answer:
    """A request that its gateway ends, while the provider answers everybody else."""
    return answers.healthy(request) if is_question(request) else answers.BAD_GATEWAY


def test_a_failure_has_its_model_asked_at_once(
    service: Service, provider: Provider, rollout: str, model: str
) -> None:
    provider.plays(FAILURES[Fault.PROVIDER_ERROR])
    service.register(id=rollout, model=model, upstream="openai")
    assert call(service, rollout, model) == 503
    until(lambda: shared(service, rollout) == 1 and series(service, model)[0][0] == 1)
    ((_, not_run, calls),) = series(service, model)
    assert not_run is None
    assert [(c["answered"], c["subcategory"]) for c in json.loads(calls)] == [
        (False, "provider_error")
    ]
    (question,) = questions(provider)
    assert question.header("authorization") == "Bearer sk-operator"
    assert json.loads(question.body)["model"] == model
    recorded = read(
        service,
        "SELECT rollout_id, attribution_source, status FROM exchanges WHERE role = 'reference' "
        "AND model = ?",
        model,
    )
    assert recorded == [("_reference", "reference", 503)]
    assert read(service, "SELECT count(*) FROM rollouts WHERE id = '_reference'") == [(0,)]


def test_a_trusted_agents_failure_asks_nothing(
    service: Service, provider: Provider, rollout: str, model: str
) -> None:
    provider.plays(FAILURES[Fault.PROVIDER_ERROR])
    policy = {"agents": "trusted"}
    service.register(id=rollout, model=model, batch=f"trusted-{model}", policy=policy)
    call(service, rollout, model)
    outcome(service, rollout)
    assert questions(provider) == []
    assert series(service, model) == []


@pytest.mark.slow
def test_a_streak_of_failures_asks_for_its_first_and_its_last(
    service: Service, provider: Provider, rollout: str, model: str
) -> None:
    provider.plays(failing_for_agents)
    service.register(id=rollout, model=model, upstream="openai")
    for _ in range(30):
        call(service, rollout, model)
    last = service.exchanges(rollout)[-1]["id"]
    query = "SELECT count(*) FROM reference_failures WHERE exchange_id = ?"
    until(lambda: read(service, query, last) == [(1,)])
    until(lambda: all(ended for ended, *_ in series(service, model)))
    asked = series(service, model)
    assert 1 <= len(asked) <= 10  # not for each call
    assert len(questions(provider)) == 3 * len(asked)
    assert shared(service, rollout) < 30


def test_the_question_names_the_registered_model_whatever_the_agent_was_last_answered_by(
    service: Service, provider: Provider, rollout: str, model: str
) -> None:
    service.register(id=rollout, model=model, upstream="openai")
    call(service, rollout, f"{model}-2031-01-01")
    until(lambda: bool(service.exchanges(rollout)))
    provider.plays(failing_for_agents)
    call(service, rollout, f"{model}-of-mine")
    until(lambda: shared(service, rollout) == 1)
    until(lambda: len(questions(provider)) == 3)
    names = {json.loads(question.body)["model"] for question in questions(provider)}
    assert names == {model}


NOT_FOUND = FAILURES[Fault.MODEL_NOT_FOUND]


def not_found_under(*names: str) -> Callable[[Request], Answer]:
    """Serve all but these spellings of models."""
    return lambda request: (
        NOT_FOUND if json.loads(request.body)["model"] in names else answers.healthy(request)
    )


def asked_names(provider: Provider) -> set[str]:
    return {json.loads(question.body)["model"] for question in questions(provider)}


@pytest.mark.parametrize(
    ("registered", "named", "missing", "asked", "counts"),
    [
        ("{}", "{}-2031-01-01", "{}-2031-01-01", "{}", True),
        ("openai/{}", "{}-2031-01-01", "{}-2031-01-01", "{}", True),  # as this provider spells it
        ("{}-2031-01-01", "{}-2031-01-01", "{}-2031-01-01", "{}-2031-01-01", False),
        ("openai/{}", "{}", "{}", "{}", False),
    ],
)
def test_the_question_to_the_registered_name_decides_of_an_equal_one_that_is_not_found(
    service: Service, provider: Provider, rollout: str, model: str,
    registered: str, named: str, missing: str, asked: str, counts: bool,
) -> None:  # fmt: skip
    registered, named, missing, asked = (
        form.format(model) for form in (registered, named, missing, asked)
    )
    provider.plays(not_found_under(missing))
    call(service, f"{rollout}-else", f"{model}-2030-01-01")
    service.outcome(f"{rollout}-else", status="success", batch="else", model=registered)
    service.register(id=rollout, batch=model, model=registered, upstream="openai")
    assert call(service, rollout, named) == 404
    result = outcome(service, rollout)
    assert asked_names(provider) == {asked}
    assert (result["rewards"] is not None) is counts
    assert service.verdict(rollout)["attributed_to"] == ("agent" if counts else "operator")


def test_a_batch_whose_registered_model_is_not_found_has_no_zeros_beside_one_that_is_answered(
    service: Service, provider: Provider, rollout: str, model: str
) -> None:
    trusted = {"agents": "trusted"}
    provider.plays(not_found_under(f"{model}-20251101"))
    for batch, named in (("good", model), ("bad", f"{model}-20251101")):
        for number in range(3):
            name = f"{rollout}-{batch}-{number}"
            service.register(id=name, batch=f"{rollout}-{batch}", task=f"t{number}", policy=trusted,
                             model=f"anthropic/{model}", upstream="openai")  # fmt: skip
            call(service, name, named)
            result = outcome(service, name)
            assert (result["rewards"] is None) is (batch == "bad"), name
            if batch == "bad":
                assert (result["health"], result["attributed_to"]) == ("api_error", "operator")
                assert result["api_error_info"]["subcategory"] == "model_not_found"
    bad, good = (service.get(f"/batches/{rollout}-{each}") for each in ("bad", "good"))
    assert (bad["scoreable"], bad["score_effective"]) == (0, None)
    assert (good["scoreable"], good["score_effective"]) == (3, 0.0)


def test_without_the_operators_key_nothing_is_asked(
    service: Service, provider: Provider, rollout: str, model: str
) -> None:
    provider.plays(answers.FAILURES[Api.GEMINI][Fault.PROVIDER_ERROR])
    service.register(id=rollout, model=model, upstream="gemini")
    url = service.base(rollout, "gemini") + f"/v1beta/models/{model}:generateContent"
    body = {"contents": [{"role": "user", "parts": [{"text": "hi"}]}]}
    httpx.post(url, json=body, headers={"x-goog-api-key": "own"})
    until(lambda: shared(service, rollout) == 1)
    assert [row[1] for row in series(service, model)] == ["no_key"]
    assert questions(provider) == []


def test_a_provider_that_is_down_for_all_takes_no_reward_for_a_measurement(
    service: Service, provider: Provider, rollout: str, model: str
) -> None:
    provider.plays(FAILURES[Fault.PROVIDER_ERROR])
    service.register(id=rollout, model=model, upstream="openai")
    call(service, rollout, model)
    result = outcome(service, rollout)
    assert (result["health"], result["rewards"]) == ("api_error", None)
    verdict = service.verdict(rollout)
    assert (verdict["attributed_to"], verdict["corroborated"]) == ("provider", True)
    assert {each["result"] for each in verdict["references"]} == {"failed_alike"}
    assert verdict["provisional"] is False
    page = html.unescape(service.http.get(f"/ui/rollouts/{rollout}").text)
    assert f"The proxy asked {model} itself, beside call " in page
    assert "the proxy's own question failed alike (0 of 1 question answered)" in page
    listed = service.http.get("/ui/rollouts", params={"text": rollout, "columns": "asked"}).text
    assert f">{model}: failed alike (0 of 1 question answered)</a>" in html.unescape(listed)
    assert f'href="/ui/rollouts/{rollout}#asked"' in listed and 'id="asked"' in page


def test_an_export_is_judged_as_the_service_judged_it(
    service: Service, provider: Provider, rollout: str, model: str
) -> None:
    batch = f"exported-{model}"
    provider.plays(FAILURES[Fault.PROVIDER_ERROR])
    service.register(id=rollout, model=model, upstream="openai", batch=batch)
    call(service, rollout, model)
    outcome(service, rollout)
    lines = service.http.get("/rollouts/export", params={"batch": batch}).text.splitlines()
    (judged,) = judge_export(lines)
    names = ("health", "scoreable", "attributed_to", "corroborated", "references", "warnings")
    told, found = service.verdict(rollout), encode_verdict(judged)
    assert {name: found[name] for name in names} == {name: told[name] for name in names}


def ended(service: Service, rollout: str, model: str, batch: str) -> None:
    """A rollout of a trusted agent that calls once and gets nothing."""
    policy = {"agents": "trusted"}
    service.register(id=rollout, model=model, upstream="openai", batch=batch, policy=policy)
    call(service, rollout, model)
    outcome(service, rollout)


def test_a_breaker_asks_before_it_opens(service: Service, provider: Provider, model: str) -> None:
    denied = answers.whole({"error": {"message": "denied", "code": "invalid_api_key"}}, 401)

    def denied_to_agents(request: Request) -> Answer:
        return answers.healthy(request) if is_question(request) else denied

    provider.plays(denied_to_agents)
    for number in range(6):
        ended(service, f"{model}-own-{number}", model, f"own-{model}")
    (lane,) = service.get(f"/batches/own-{model}/breaker")["lanes"]
    assert (lane["phase"], lane["streak"]) == ("closed", 6)
    assert lane["answered_at"] is not None

    provider.plays(denied)
    dead = f"dead-{model}"
    for number in range(5):
        ended(service, f"{model}-dead-{number}", dead, dead)
    (lane,) = service.get(f"/batches/{dead}/breaker")["lanes"]
    assert (lane["phase"], lane["answered_at"]) == ("open", None)


def test_who_looks_while_a_breaker_is_asked_about_does_not_open_it(
    service: Service, provider: Provider, model: str
) -> None:
    denied = answers.whole({"error": {"message": "denied", "code": "invalid_api_key"}}, 401)
    may_answer = threading.Event()

    def denied_to_agents(request: Request) -> Answer:
        if not is_question(request):
            return denied
        may_answer.wait(60)
        return answers.healthy(request)

    provider.plays(denied_to_agents)
    batch = f"looked-at-{model}"
    names = [f"{model}-looked-at-{number}" for number in range(5)]
    for name in names:
        service.register(id=name, batch=batch, model=model, policy={"agents": "trusted"})
        call(service, name, model)
    for name in names[:-1]:
        outcome(service, name)
    with ThreadPoolExecutor(1) as pool:
        last = pool.submit(outcome, service, names[-1])
        until(lambda: questions(provider))
        looked_at = service.verdict(names[-1])
        assert (looked_at["subcategory"], looked_at["provisional"]) == ("auth", True)
        (lane,) = service.get(f"/batches/{batch}/breaker")["lanes"]
        assert (lane["phase"], lane["streak"]) == ("closed", 4)
        may_answer.set()
        assert last.result()["provisional"] is False
    (lane,) = service.get(f"/batches/{batch}/breaker")["lanes"]
    assert (lane["phase"], lane["streak"]) == ("closed", 5)
    assert lane["answered_at"] is not None


@pytest.mark.slow  # the answer to the outcome is waited for
def test_a_series_that_ends_late_has_the_verdict_judged_anew(
    service: Service, provider: Provider, rollout: str, model: str
) -> None:
    asked = threading.Event()

    late = replace(FAILURES[Fault.PROVIDER_ERROR], body=(Wait(asked), b"{}"), length=2)
    provider.plays(lambda request: late if is_question(request) else FAILURES[Fault.PROVIDER_ERROR])
    service.register(id=rollout, model=model, upstream="openai")
    call(service, rollout, model)
    early = outcome(service, rollout)
    assert (early["provisional"], early["scoreable"], early["rewards"]) == (True, "unknown", None)
    assert service.verdict(rollout)["attributed_to"] == "unknown"
    asked.set()
    until(lambda: not service.verdict(rollout)["provisional"])
    verdict = service.verdict(rollout)
    assert (verdict["attributed_to"], verdict["corroborated"]) == ("provider", True)


@pytest.mark.slow
def test_a_hundred_rollouts_under_a_dead_key_ask_twelve_series_a_minute(
    service: Service, provider: Provider, model: str
) -> None:
    provider.plays(FAILURES[Fault.AUTH])

    def run(number: int) -> dict[str, Any]:
        rollout = f"{model}-dead-{number}"
        service.register(id=rollout, model=model, upstream="openai")
        call(service, rollout, model)
        return outcome(service, rollout)

    with ThreadPoolExecutor(20) as threads:
        results = list(threads.map(run, range(100)))
    assert {result["rewards"] is None for result in results} == {True}
    starts = [
        float(at)
        for (at,) in read(
            service,
            "SELECT started_at FROM reference_series WHERE model = ? AND not_run IS NULL "
            "ORDER BY started_at",
            model,
        )
    ]
    assert starts
    assert all(later - first > 60 for first, later in zip(starts, starts[12:], strict=False))


@pytest.mark.slow  # a cluster
def test_two_replicas_share_series_and_agree(
    provider: Provider, postgres_server: Server, tmp_path: Path, model: str
) -> None:
    provider.plays(FAILURES[Fault.PROVIDER_ERROR])
    settings = {"AGENTS": "untrusted", "KEY_OPENAI": "sk-operator"}
    with ExitStack() as stack:
        url = stack.enter_context(postgres_server.database(prepared=False))
        homes = [tmp_path / name for name in "ab"]
        for home in homes:
            home.mkdir()
        one, other = (
            stack.enter_context(Service(home, provider.url, DATABASE_URL=url, **settings))
            for home in homes
        )
        for number in range(4):
            rollout = f"{model}-{number}"
            one.register(id=rollout, model=model, upstream="openai")
            call((one, other)[number % 2], rollout, model)
            outcome((other, one)[number % 2], rollout)
        verdicts = [[each.verdict(f"{model}-{n}") for n in range(4)] for each in (one, other)]
    assert verdicts[0] == verdicts[1]
    assert {verdict["attributed_to"] for verdict in verdicts[0]} == {"provider"}
    assert {verdict["provisional"] for verdict in verdicts[0]} == {False}


OLD_VERSION, NEW_VERSION = "2023-06-01", "2026-10-21"


def ask_by_version(service: Service, rollout: str, model: str, version: str) -> int:
    url = service.base(rollout, "anthropic") + "/v1/messages"
    body = {**ASK, "model": model, "max_tokens": 100}
    return httpx.post(url, json=body, headers={"anthropic-version": version}).status_code


@pytest.mark.parametrize("answered_by", [OLD_VERSION, None])
def test_an_agent_whose_sdk_sends_a_newer_version_than_others_is_not_blamed(
    service: Service, provider: Provider, rollout: str, model: str, answered_by: str | None
) -> None:
    def without_the_new_version(request: Request) -> Answer:
        fails = request.header("anthropic-version") == NEW_VERSION
        failure = answers.FAILURES[Api.MESSAGES][Fault.PROVIDER_ERROR]
        return failure if fails else answers.healthy(request)

    provider.plays(without_the_new_version)
    for each in (f"{rollout}-other", rollout):
        service.register(id=each, model=model, upstream="anthropic")
    if answered_by is not None:
        assert ask_by_version(service, f"{rollout}-other", model, answered_by) == 200
        assert ask_by_version(service, rollout, model, answered_by) == 200
    assert ask_by_version(service, rollout, model, NEW_VERSION) >= 500
    outcome(service, rollout)
    verdict = service.verdict(rollout)
    assert {each.header("anthropic-version") for each in questions(provider)} == {NEW_VERSION}
    assert (verdict["health"], verdict["attributed_to"]) == ("api_error", "provider")
    assert verdict["scoreable"] == "no"
