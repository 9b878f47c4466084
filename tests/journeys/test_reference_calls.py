"""Reference calls of a running service: when and how they are asked, and what they leave behind."""

from __future__ import annotations

import html
import itertools
import json
import sqlite3
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import httpx
import pytest

from classifier.__main__ import judge_export
from classifier.codec import encode_verdict
from tests.fakes import answers
from tests.fakes.answers import Api, Fault
from tests.fakes.provider import Answer, Pause, Provider, Request, Wait
from tests.journeys.service import Service
from tests.waiting import until

ASK = {"model": "gpt-5", "messages": [{"role": "user", "content": "Is the zero true?"}]}
FAILURES = answers.FAILURES[Api.CHAT]
DOWN = FAILURES[Fault.PROVIDER_ERROR]
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


def test_a_failure_has_its_model_asked_at_once(
    service: Service, provider: Provider, rollout: str, model: str
) -> None:
    provider.plays(DOWN)
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
    provider.plays(DOWN)
    policy = {"agents": "trusted"}
    service.register(id=rollout, model=model, batch=f"trusted-{model}", policy=policy)
    call(service, rollout, model)
    outcome(service, rollout)
    assert questions(provider) == []
    assert series(service, model) == []


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
    provider.plays(DOWN)
    service.register(id=rollout, model=model, upstream="openai", batch=model)
    call(service, rollout, model)
    result = outcome(service, rollout)
    assert (result["health"], result["rewards"]) == ("api_error", None)
    verdict = service.verdict(rollout)
    lines = service.http.get("/rollouts/export", params={"batch": model}).text.splitlines()
    (judged,) = judge_export(lines)
    names = ("health", "scoreable", "attributed_to", "corroborated", "references", "warnings")
    exported = encode_verdict(judged)
    assert {name: exported[name] for name in names} == {name: verdict[name] for name in names}
    assert (verdict["attributed_to"], verdict["corroborated"]) == ("provider", True)
    assert {each["result"] for each in verdict["references"]} == {"failed_alike"}
    assert verdict["provisional"] is False
    page = html.unescape(service.http.get(f"/ui/rollouts/{rollout}").text)
    assert f"The proxy asked {model} itself, beside call " in page
    assert "the proxy's own question failed alike (0 of 1 question answered)" in page
    listed = service.http.get("/ui/rollouts", params={"text": rollout, "columns": "asked"}).text
    assert f">{model}: failed alike (0 of 1 question answered)</a>" in html.unescape(listed)
    assert f'href="/ui/rollouts/{rollout}#asked"' in listed and 'id="asked"' in page


DENIED = answers.whole({"error": {"message": "denied", "code": "invalid_api_key"}}, 401)


def test_a_breaker_asks_about_what_failed_before_it_opens(
    service: Service, provider: Provider, model: str
) -> None:
    def lane_after(batch: str, rollouts: int) -> dict[str, Any]:
        for number in range(rollouts):
            name, policy = f"{batch}-{number}", {"agents": "trusted"}
            service.register(id=name, model=batch, upstream="openai", batch=batch, policy=policy)
            url = service.base(name, "openai") + "/v1/responses"
            assert httpx.post(url, json={"model": batch, "input": "hi"}).status_code == 401
            outcome(service, name)
        (lane,) = service.get(f"/batches/{batch}/breaker")["lanes"]
        return dict(lane)

    provider.plays(lambda request: answers.healthy(request) if is_question(request) else DENIED)
    lane = lane_after(f"own-{model}", 6)
    assert (lane["phase"], lane["streak"]) == ("closed", 6)
    assert lane["answered_at"] is not None

    provider.plays(
        lambda request: DENIED if request.path.endswith("/responses") else answers.healthy(request)
    )
    lane = lane_after(f"dead-{model}", 5)
    assert (lane["phase"], lane["answered_at"]) == ("open", None)


@pytest.mark.slow  # the answer to the outcome is waited for
def test_a_series_that_ends_late_has_the_verdict_judged_anew(
    service: Service, provider: Provider, rollout: str, model: str
) -> None:
    asked = threading.Event()

    late = replace(DOWN, body=(Wait(asked), b"{}"), length=2)
    provider.plays(lambda request: late if is_question(request) else DOWN)
    service.register(id=rollout, model=model, upstream="openai")
    call(service, rollout, model)
    early = outcome(service, rollout)
    assert (early["provisional"], early["scoreable"], early["rewards"]) == (True, "unknown", None)
    assert service.verdict(rollout)["attributed_to"] == "unknown"
    asked.set()
    until(lambda: not service.verdict(rollout)["provisional"])
    verdict = service.verdict(rollout)
    assert (verdict["attributed_to"], verdict["corroborated"]) == ("provider", True)


# --- what is asked, and whose a failure is then: the provider fails some calls, whoever asks -----

CHAT, RESPONSES, MOUNT = "/v1/chat/completions", "/v1/responses", "/openai/chat/completions"
VERSION = "2026-10-21"
NOT_FOUND, LIMITED = FAILURES[Fault.MODEL_NOT_FOUND], FAILURES[Fault.RATE_LIMIT]
Strikes = Callable[[Request], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Asks:
    """How an agent asks, and what it is registered with; ``{}`` is the case's own model."""

    model: str = "{}"
    registered: str | tuple[str, ...] | None = "{}"
    upstream: str = "openai"
    path: str = CHAT
    body: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    agents: str = "untrusted"

    def register(self, service: Service, name: str, model: str) -> None:
        """Register a rollout of such an agent in the case's batch."""
        known = [self.registered] if isinstance(self.registered, str) else self.registered
        facts = {"id": name, "batch": model, "policy": {"agents": self.agents}}
        if known is not None:
            facts |= {"model": [each.format(model) for each in known], "upstream": self.upstream}
        service.register(**facts)

    def ask(self, service: Service, name: str, model: str, **how: Any) -> int:
        """Ask as the agent of a rollout."""
        text = {"input": "hi"} if self.path.endswith(RESPONSES) else {"messages": ASK["messages"]}
        body = {"model": self.model.format(model), **text, **self.body}
        url = service.base(name, self.upstream) + self.path
        return httpx.post(url, json=body, headers=self.headers, **how).status_code


@dataclass(frozen=True, slots=True, kw_only=True)
class Spoilt:
    """A failure of one of several agents, and whose it is.

    ``strikes`` tells what fails once all have been answered; ``missing`` is a model's name that
    nobody is ever answered by. ``first``: the one had no answer before. ``then``: it fails by
    another way than it was answered. ``questions``: how they are told apart, and all there are.
    """

    one: Asks = Asks()
    others: tuple[Asks, ...] = ()
    strikes: Strikes = lambda _: True
    failure: Answer = DOWN
    missing: str = "none"
    first: bool = False
    then: Asks | None = None
    excused: bool = True
    questions: tuple[Callable[[Request], str | None], set[str]] | None = None


def path_of(request: Request) -> str:
    return request.path


def model_of(request: Request) -> str:
    return str(json.loads(request.body)["model"])


def names(end: str) -> Strikes:
    return lambda request: model_of(request).endswith(end)


def streams(request: Request) -> bool:
    return bool(json.loads(request.body).get("stream"))


TWO = ("{}", "{}-b")
B, STREAMS, FLEX = Asks(model="{}-b", registered=TWO), Asks(body={"stream": True}), Asks(
    body={"service_tier": "flex"})  # fmt: skip
SPOILT = {
    "one of two registered models": Spoilt(
        one=B, others=(Asks(registered=TWO),), strikes=names("-b"), questions=(model_of, {"{}-b"})
    ),
    "one of two models, and nobody asks the other": Spoilt(one=B, strikes=names("-b")),
    "one of two models, none registered": Spoilt(
        one=Asks(model="{}-b", registered=None), others=(Asks(registered=None),),
        strikes=names("-b"), first=True,
    ),
    "chat beside responses": Spoilt(
        others=(Asks(path=RESPONSES),), strikes=lambda request: request.path == CHAT,
        questions=(path_of, {CHAT}),
    ),
    "responses": Spoilt(
        one=Asks(path=RESPONSES), strikes=lambda request: request.path == RESPONSES
    ),
    "a mount that others use": Spoilt(
        one=Asks(path=MOUNT), others=(Asks(path=MOUNT), Asks()),
        strikes=lambda request: request.path == MOUNT,
    ),
    "a mount of its own": Spoilt(
        one=Asks(path=MOUNT), others=(Asks(), Asks()),
        strikes=lambda request: request.path == MOUNT, excused=False,
    ),
    "streams": Spoilt(one=STREAMS, strikes=streams),
    "streams, from the first call": Spoilt(one=STREAMS, strikes=streams, first=True),
    "a stream of who was answered whole": Spoilt(then=STREAMS, strikes=streams, excused=False),
    "a tier that others use": Spoilt(
        one=FLEX, others=(FLEX, Asks()), strikes=lambda request: b"flex" in request.body
    ),
    "a tier of its own": Spoilt(
        one=FLEX, others=(Asks(),), strikes=lambda request: b"flex" in request.body, excused=False
    ),
    "a version that an SDK sends": Spoilt(
        one=Asks(upstream="anthropic", path="/v1/messages", body={"max_tokens": 9},
                 headers={"anthropic-version": VERSION}),
        strikes=lambda request: request.header("anthropic-version") == VERSION,
        questions=(lambda request: request.header("anthropic-version"), {VERSION}),
    ),
    "a filter, under trust too": Spoilt(one=Asks(agents="trusted"), failure=answers.FILTERED),
    "a filter of its own words": Spoilt(
        strikes=lambda request: not is_question(request), failure=answers.FILTERED, excused=False
    ),
    "a name of its own": Spoilt(
        one=Asks(model="{}:free"), strikes=names(":free"), failure=LIMITED, excused=False,
        questions=(model_of, {"{}"}),
    ),
    "a call without a plain question": Spoilt(
        then=Asks(path="/generate", body={"inputs": "a"}), failure=answers.BAD_GATEWAY,
        strikes=lambda request: not is_question(request), excused=False,
    ),
    "a name that another spelling is served by": Spoilt(
        one=Asks(model="vendor/{}"), missing="{}", excused=False,
        strikes=lambda request: not is_question(request),
    ),
    "a version of the registered model that is not found": Spoilt(
        one=Asks(model="{}-2031-01-01", registered="openai/{}"), missing="{}-2031-01-01",
        failure=NOT_FOUND, first=True, strikes=lambda _: False, excused=False,
        questions=(model_of, {"{}"}),
    ),
    "a registered model that is not found": Spoilt(
        one=Asks(registered="openai/{}"), missing="{}", failure=NOT_FOUND, first=True,
        strikes=lambda _: False, questions=(model_of, {"{}"}),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SPOILT)
def test_a_question_asks_as_the_failed_call_did_and_tells_whose_it_is(
    service: Service, provider: Provider, rollout: str, model: str, name: str
) -> None:
    case = SPOILT[name]
    missing = case.missing.format(model)

    def plays(failing: bool) -> Callable[[Request], Answer]:
        return lambda request: (
            NOT_FOUND if model_of(request) == missing
            else case.failure if failing and case.strikes(request)
            else answers.healthy(request)
        )  # fmt: skip

    agents = {rollout: case.one, **{f"{rollout}-{n}": one for n, one in enumerate(case.others)}}
    provider.plays(plays(failing=False))
    for each, asks in agents.items():
        asks.register(service, each, model)
        if each != rollout or not case.first:
            assert asks.ask(service, each, model) == 200
    provider.plays(plays(failing=True))
    assert (case.then or case.one).ask(service, rollout, model) == case.failure.status
    for each in agents:
        service.outcome(each, status="success", rewards={"score": 0.0})
    until(lambda: not service.verdict(rollout)["provisional"])
    verdict = service.verdict(rollout)
    if case.excused:
        assert (verdict["scoreable"] == "yes", verdict["attributed_to"] == "agent") == (False,) * 2
    else:
        assert (verdict["scoreable"], verdict["retry"]["eligible"]) == ("yes", False)
    told, wanted = case.questions or (lambda _: None, set())
    asked = {told(question) for question in questions(provider)}
    assert asked == {each.format(model) for each in wanted} or not wanted


@pytest.mark.slow  # what is slow takes its time
@pytest.mark.parametrize("slow_for_all", [True, False])
def test_a_call_that_was_left_while_the_provider_is_as_slow_to_whoever_asks_is_nobodys(
    service: Service, provider: Provider, rollout: str, model: str, slow_for_all: bool
) -> None:
    def slow(request: Request) -> Any:
        answer = answers.healthy(request)
        if is_question(request) and not slow_for_all:
            return answer
        return (Pause(2.5), *answer.steps("POST"))

    agent = Asks()
    agent.register(service, rollout, model)
    assert agent.ask(service, rollout, model) == 200
    provider.plays(slow)
    for _ in range(2):
        with pytest.raises(httpx.TimeoutException):
            agent.ask(service, rollout, model, timeout=1.7)
    outcome(service, rollout)
    until(lambda: not service.verdict(rollout)["provisional"])
    assert service.verdict(rollout)["scoreable"] == ("unknown" if slow_for_all else "yes")
