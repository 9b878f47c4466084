"""Which rollouts a list judges anew, and results, which speak as their verdicts do."""

from __future__ import annotations

import asyncio
import csv
import io
import json
import sqlite3
from collections.abc import Callable, Collection
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from classifier.__main__ import judge_export
from classifier.codec import encode_verdict
from classifier.records import UNATTRIBUTED, RolloutRecord
from classifier.verdicts import Policy
from proxy.control import judge
from proxy.control.evidence_kinds import LONGEST_S, NEIGHBOURS, with_evidence
from proxy.store.connections import Connections
from proxy.store.database import Database
from proxy.store.errors import DatabaseUnavailable
from proxy.store.rollouts import Rollouts
from proxy.store.tables import CommitBatch, Row
from tests.builders import STARTED, exchange, outcome
from tests.fakes import answers
from tests.fakes.answers import Api, Fault
from tests.fakes.control import control_over
from tests.fakes.provider import Answer
from tests.proxy import inside
from tests.proxy.api.test_routes import ASK, CHAT, Service, problem
from tests.proxy.conftest import Services
from tests.proxy.store.records import FULL

DEAD = answers.FAILURES[Api.CHAT][Fault.AUTH]


@pytest.fixture
def service(services: Services) -> Service:
    return services()


def given_at(service: Service) -> float:
    with closing(sqlite3.connect(service.database)) as connection:
        (found,) = connection.execute("SELECT given_at FROM verdicts").fetchone()
    return float(found)


def test_a_list_does_not_judge_again_what_has_not_changed(service: Service) -> None:
    service.call()
    service.get("/rollouts")
    before = given_at(service)
    service.get("/rollouts")
    assert given_at(service) == before


def test_claims_whose_sum_no_database_takes_stop_no_list(service: Service) -> None:
    claimed = replace(FULL, usage=replace(FULL.usage, input_total=2**53 - 1, cost_usd=1e308))
    database = Database(str(service.database))
    calls = [replace(claimed, id=f"x{n}", rollout_id="r1") for n in range(1030)]
    database.calls.write(CommitBatch(recorded=calls), worker="w")
    database.close()
    assert [item["id"] for item in service.get("/rollouts")["items"]] == ["r1"]
    verdict = service.get("/rollouts/r1/verdict")
    assert (verdict["total_requests"], verdict["output_tokens"]) == (1030, 8 * 1030)
    assert [verdict[name] for name in ("input_tokens", "total_tokens", "cost_usd")] == [None] * 3


def test_what_has_ended_is_put_in_no_batch_afterwards(service: Service) -> None:
    service.provider.plays(DEAD)
    service.call()
    reported = {"status": "success", "rewards": {"reward": 0.0}}
    judged = service.http.post("/rollouts/r1/outcome", json=reported).json()
    assert (judged["health"], judged["batch"]) == ("api_error", None)
    at = {"id": "r1", "batch": "b", "task": "t", "repeat": 0}
    assert service.http.post("/rollouts", json=at).status_code == 409
    assert service.get("/rollouts/r1/verdict")["batch"] is None
    assert service.http.post("/rollouts/r1/outcome", json=reported).json() == judged
    assert service.http.post("/rollouts", json={"id": "r1"}).status_code == 201


# --- a score that a dead judge gave -------------------------------------------------------------

UNJUDGED = (
    "does not count: role judge did not reach its model in 1 of 1 call (auth) (judge_failed); "
    "look at the calls"
)
ZERO = {"status": "success", "termination_reason": "agent_stop", "rewards": {"reward": 0.0}}


def judged_by_nobody(service: Service, rollout: str = "r1") -> dict[str, Any]:
    """Play a rollout whose judge has a dead key, and return the answer to its outcome."""
    at = {"id": rollout, "batch": "b", "task": "t", "repeat": 0, "repeats": 1}
    service.http.post("/rollouts", json=at)
    service.provider.plays(answers.healthy)
    service.call(rollout)
    service.provider.plays(DEAD)
    service.http.post(f"/r/{rollout}/as/judge/openai{CHAT}", json=ASK)
    answer = service.http.post(f"/rollouts/{rollout}/outcome", json=ZERO)
    assert answer.status_code == 200, answer.text
    result: dict[str, Any] = answer.json()
    return result


def test_a_reward_that_a_dead_judge_gave_is_null_wherever_it_is_read(service: Service) -> None:
    result = judged_by_nobody(service)
    assert service.get("/rollouts/r1/verdict")["scoreable"] == "no"
    assert service.get("/rollouts/r1/result") == result
    assert (result["health"], result["rewards"], result["error"]) == ("healthy", None, UNJUDGED)
    (item,) = service.get("/rollouts", reward="null")["items"]
    assert (item["scoreable"], item["reward"]) == ("no", None)
    assert service.get("/rollouts", reward="zero")["items"] == []
    (row,) = csv.DictReader(
        io.StringIO(service.http.get("/rollouts", headers={"accept": "text/csv"}).text)
    )
    assert (row["scoreable"], row["reward"]) == ("no", "")
    batch = service.get("/batches/b")
    assert (batch["scored"], batch["score_effective"], batch["coverage"]) == (0, None, 0.0)
    (group,) = service.get("/batches/b/groups")["items"]
    assert (group["rewards"], group["valid"], group["baseline"]) == ([None], [False], None)
    shown = service.http.get("/ui/rollouts/r1", headers={"accept": "text/html"}).text
    assert "<s>0</s> <b>null</b>" in shown


def test_a_result_that_an_earlier_version_stored_says_the_same(service: Service) -> None:
    result = judged_by_nobody(service)
    earlier = {**result, "rewards": {"reward": 0.0}, "error": None}
    with closing(sqlite3.connect(service.database)) as connection, connection:
        connection.execute("UPDATE verdicts SET result = ?", [json.dumps(earlier)])
    assert service.get("/rollouts/r1/result") == result


# --- A rollout is loaded while the backlog of its calls is being written to the database ----------


class Kept:
    """A recorder with a backlog of calls, until it is written."""

    failing = False
    gaps_counted = 0
    waiting = 0

    def __init__(self) -> None:
        self.owed = 1

    def missing(self, rollout_id: str) -> int:
        return self.owed


class Mended(Database):
    """The backlog is written just when a rollout has been read, or could not be."""

    def __init__(self, url: str, kept: Kept, *, away: bool) -> None:
        super().__init__(url)
        self.rollouts = self._mended = MendedRollouts(self.connections, kept, away=away)

    def mend(self) -> None:
        self._mended.mended = True


class MendedRollouts(Rollouts):
    def __init__(self, connections: Connections, kept: Kept, *, away: bool) -> None:
        super().__init__(connections)
        self._kept = kept
        self._away = away
        self.mended = False

    def load_some(self, rollout_ids: Collection[str]) -> dict[str, tuple[Row, RolloutRecord]]:
        away = self._away and not self.mended
        found = {} if away else super().load_some(rollout_ids)
        self._kept.owed = 0
        if away:
            raise DatabaseUnavailable("database is locked")
        return found


@pytest.mark.parametrize("away", [False, True], ids=["it was read before", "it was away"])
def test_a_call_written_while_its_verdict_is_asked_is_missed_and_its_rollout_known(
    tmp_path: Path, away: bool
) -> None:
    kept = Kept()
    database = Mended(str(tmp_path / "t.db"), kept, away=away)
    database.prepare()
    call = exchange(200)
    database.calls.write(CommitBatch(recorded=[call]), worker="w")
    service = control_over(database, recorder=kept)
    first = asyncio.run(judge.verdict(service, call.rollout_id))
    assert first["health"] == "undecided"
    database.mend()
    assert asyncio.run(judge.verdict(service, call.rollout_id))["health"] == "healthy"
    database.close()


# --------------------------------------------------------------------------------------------------
# A verdict stands on what other rollouts got at the time, in the service and in an export

DOWN = answers.FAILURES[Api.CHAT][Fault.PROVIDER_ERROR]
UNTRUSTED = {"agents": "untrusted"}


@pytest.fixture
def neighbours_service(on_both: Callable[..., Service]) -> Service:
    return on_both(BREAKER_THRESHOLD="3")


def call(neighbours_service: Service, name: str, answer: object = None, **sent: Any) -> None:
    neighbours_service.provider.plays(answer or answers.chat())  # type: ignore[arg-type]
    asked = {"model": "gpt-5", "messages": [], **sent.pop("body", {})}
    path = f"/r/{name}/{sent.pop('upstream', 'openai')}/v1/chat/completions"
    neighbours_service.http.post(path, json=asked, **sent)


def report(neighbours_service: Service, name: str, reward: float = 0.0) -> dict[str, Any]:
    seen = {"status": "success", "prompts_executed": 1, "rewards": {"reward": reward}}
    return dict(neighbours_service.http.post(f"/rollouts/{name}/outcome", json=seen).json())


def register(neighbours_service: Service, name: str, **facts: Any) -> None:
    asked = {"id": name, "batch": "b", "model": "gpt-5", "upstream": "openai", **facts}
    assert neighbours_service.http.post("/rollouts", json=asked).status_code == 201


@pytest.mark.postgres_smoke
def test_an_outcome_registers_under_its_batchs_policy(neighbours_service: Service) -> None:
    register(neighbours_service, "r1", policy=UNTRUSTED)
    call(neighbours_service, "late", DEAD)
    for name in ("late", "unseen"):
        seen = {"status": "agent_error", "error": "it crashed", "batch": "b", "model": "gpt-5"}
        neighbours_service.http.post(f"/rollouts/{name}/outcome", json=seen)
    exported = neighbours_service.http.get("/rollouts/export?batch=b").text.splitlines()
    trust = {line["id"]: line.get("agents") for line in map(json.loads, exported)
             if line["record"] == "rollout"}  # fmt: skip
    assert trust == dict.fromkeys(("r1", "late", "unseen"), "untrusted")
    assert neighbours_service.get("/rollouts/unseen/verdict")["scoreable"] == "yes"


@pytest.mark.parametrize("rollouts", [1, pytest.param(5, marks=pytest.mark.slow)])
def test_bogus_keys_take_no_reward_and_open_no_breaker(
    neighbours_service: Service, rollouts: int
) -> None:
    good, bad = {"authorization": "Bearer sk-good"}, {"authorization": "Bearer sk-bogus"}
    for n in range(rollouts):
        register(neighbours_service, f"r{n}", task=f"t{n}", policy=UNTRUSTED)
        call(neighbours_service, f"r{n}", headers=good)
        call(neighbours_service, f"r{n}", DEAD, headers=bad)
        call(neighbours_service, f"r{n}", DEAD, headers=bad)
        assert neighbours_service.get(f"/rollouts/r{n}/verdict")["doomed"] is False
        told = report(neighbours_service, f"r{n}")
        assert (told["health"], told["scoreable"]) == ("healthy", "yes")
        assert (told["rewards"], told["attributed_to"]) == ({"reward": 0.0}, "agent")
        assert "provoked_suspected" in told["warnings"]
        assert told["own_failure_info"]["provoked"] is True
    lanes = neighbours_service.get("/batches/b/breaker")["lanes"]
    assert all(lane["phase"] == "closed" for lane in lanes)
    summary, checked = (
        neighbours_service.get("/batches/b"),
        neighbours_service.get("/batches/b/check"),
    )
    assert (summary["score_effective"], summary["retry"]) == (0.0, [])
    assert checked["lines"][0] == (
        "t0: counts: the model answered 1 of 3 calls, and the failed calls are taken to be the "
        "agent's own"
    )


def test_what_others_saw_is_found_and_judged_alike_from_an_export(
    neighbours_service: Service,
) -> None:
    for name in ("r1", "r2", "r3"):
        register(neighbours_service, name, policy=UNTRUSTED)
        call(neighbours_service, name)
    for name in ("r1", "r2", "r3"):
        call(neighbours_service, name, DOWN, body={"user": name})
    told = {name: report(neighbours_service, name) for name in ("r1", "r2", "r3")}
    for result in told.values():
        assert (result["health"], result["corroborated"]) == ("api_error", True)
        assert result["attributed_to"] == "provider"
    call(neighbours_service, "r9")  # answered later, which changes no final verdict
    again = neighbours_service.get("/rollouts/r1/verdict")
    assert (again["health"], again["corroborated"]) == ("api_error", True)
    exported = neighbours_service.http.get("/rollouts/export?batch=b").text.splitlines()
    rejudged = {v.rollout_id: encode_verdict(v) for v in judge_export(exported)}
    unjudged = {"cost_usd": None, "judged_at": None}  # prices and the time are the service's
    for name in told:
        live = neighbours_service.get(f"/rollouts/{name}/verdict")
        assert {**rejudged[name], **unjudged} == {**live, **unjudged}


NOT_FOUND = answers.FAILURES[Api.CHAT][Fault.MODEL_NOT_FOUND]


@pytest.mark.postgres_smoke
def test_no_other_batchs_answer_makes_a_registered_models_404_the_agents(
    neighbours_service: Service,
) -> None:
    for policy, scored in ((None, None), (UNTRUSTED, {"reward": 0.0})):
        batch = f"b-{scored}"
        register(neighbours_service, f"{batch}-1", batch=f"{batch}-else")
        call(neighbours_service, f"{batch}-1")
        failing = f"{batch}-2"
        register(neighbours_service, failing, batch=batch, model="openai/gpt-5", policy=policy)
        call(neighbours_service, failing, NOT_FOUND, body={"model": "gpt-5-2025-08-07"})
        told = report(neighbours_service, failing)
        assert told["rewards"] == scored  # nothing is asked here: an untrusted agent's zero stays
        if policy is None:
            assert (told["health"], told["attributed_to"]) == ("api_error", "operator")
            assert told["api_error_info"]["subcategory"] == "model_not_found"


@pytest.mark.parametrize(
    ("other", "respelled"),
    [
        ({}, True),
        ({"batch": "else"}, False),
        ({"model": "gpt-5"}, False),
        ({"upstream": None}, False),
    ],
)
def test_a_spelling_is_told_from_answers_to_the_same_registration_only(
    neighbours_service: Service, other: dict[str, Any], respelled: bool
) -> None:
    register(neighbours_service, "answered", **({"model": None} | other))
    call(neighbours_service, "answered")
    register(neighbours_service, "failing", model=None)
    call(neighbours_service, "failing", NOT_FOUND, body={"model": "gpt-5-2031-01-01"})
    told = report(neighbours_service, "failing")
    assert (told["attributed_to"] == "agent") is respelled
    assert (told["rewards"] is not None) is respelled


@pytest.mark.postgres_smoke
def test_rollouts_of_no_batch_are_no_registration_in_common(neighbours_service: Service) -> None:
    call(neighbours_service, "alone")
    call(neighbours_service, "failing", NOT_FOUND, body={"model": "gpt-5-2031-01-01"})
    assert report(neighbours_service, "failing")["attributed_to"] == "operator"


def test_bounded_rows_are_read_around_the_last_failures(database_url: str) -> None:
    database = Database(database_url)
    database.prepare()

    def commit(name: str, at: float, status: int = 200, **said: Any) -> None:
        made = exchange(status, rollout_id=name, id=f"{name}{at:g}", at=at, **said)
        database.calls.write(CommitBatch(recorded=[made]), worker="w")

    for n in range(12):
        commit(f"before{n}", 50.0 - n)
        commit(f"after{n}", 101.0 + n)
    commit("elsewhere", 99.0, upstream="other")
    near = database.calls.near(
        since=STARTED, at=STARTED + 100, until=STARTED + 160, upstreams={"openai"}, limit=5
    )
    assert {x.rollout_id for x in near} == {
        *(f"before{n}" for n in range(4)), *(f"after{n}" for n in range(5))
    }  # fmt: skip
    calls = tuple(exchange(500, id=f"f{n}", at=100.0 + n, took=0.1) for n in range(30))
    failing = RolloutRecord(id="r1", exchanges=calls, outcome=outcome())
    trusting = control_over(database)
    doubting = control_over(database, policy=Policy(agents="untrusted"))
    found = NEIGHBOURS.load(doubting, failing).neighbours
    assert set(found) == {f"f{n}" for n in range(10, 30)}
    assert found["f10"].answered == 13  # of those before, one ended within a minute
    running = replace(failing, outcome=None)
    assert with_evidence(trusting, running, None) is running
    assert with_evidence(doubting, running, None).neighbours
    database.close()


# --- Where calls named no rollout, one that made none of its own is undecided, for good -----------

SEEN = {"status": "success", "prompts_executed": 1, "rewards": {"reward": 0.0}}


@pytest.fixture
def unattributed_service(on_both: Callable[..., Service]) -> Service:
    return on_both()


def nameless(unattributed_service: Service, path: str = "/openai" + CHAT, **headers: str) -> None:
    assert unattributed_service.http.post(path, json=ASK, headers=headers).status_code == 200


def reported(unattributed_service: Service, name: str) -> dict[str, Any]:
    answer = unattributed_service.http.post(f"/rollouts/{name}/outcome", json=SEEN)
    assert answer.status_code == 200
    return dict(unattributed_service.get(f"/rollouts/{name}/verdict"))


def unattributed_register(unattributed_service: Service, name: str) -> None:
    assert (
        unattributed_service.http.post("/rollouts", json={"id": name, "batch": "b"}).status_code
        == 201
    )


def test_a_silent_rollout_is_undecided_while_calls_named_nobody(
    unattributed_service: Service,
) -> None:
    nameless(unattributed_service)  # before any of them ran
    for name in ("silent", "named", "alone"):
        unattributed_register(unattributed_service, name)
    assert reported(unattributed_service, "alone")["rule"] == "zero_signal"
    nameless(unattributed_service)
    unattributed_service.call("named")
    assert reported(unattributed_service, "named")["health"] == "healthy"
    silent = reported(unattributed_service, "silent")
    assert (silent["health"], silent["warnings"]) == ("undecided", ["calls_unattributed"])
    unattributed_register(unattributed_service, "after")
    assert reported(unattributed_service, "after")["rule"] == "zero_signal"
    assert unattributed_service.get("/rollouts/alone/verdict")["rule"] == "zero_signal"


def test_what_is_no_agents_work_makes_nothing_doubtful(unattributed_service: Service) -> None:
    unattributed_register(unattributed_service, "r1")
    assert unattributed_service.http.post("/openai/v1/embeddings", json={}).status_code == 404
    nameless(unattributed_service, **{"x-truezero-role": "judge"})
    assert unattributed_service.http.get("/openai/v1/models").status_code == 404
    assert reported(unattributed_service, "r1")["rule"] == "zero_signal"


def test_one_that_only_its_outcome_registers_may_have_run_all_day(
    unattributed_service: Service,
) -> None:
    assert reported(unattributed_service, "early")["rule"] == "zero_signal"
    nameless(unattributed_service)
    assert reported(unattributed_service, "late")["health"] == "undecided"
    assert unattributed_service.app is not None
    calls = inside.database(unattributed_service.app).calls
    now = unattributed_service.get("/rollouts/late/verdict")["judged_at"]
    assert calls.unattributed(since=now - LONGEST_S, until=now) == 1
    assert calls.unattributed(since=now - 2 * LONGEST_S, until=now - LONGEST_S) == 0


def test_an_export_is_judged_alike_even_once_those_calls_are_gone(
    unattributed_service: Service,
) -> None:
    unattributed_register(unattributed_service, "r1")
    nameless(unattributed_service)
    verdict = reported(unattributed_service, "r1")
    assert unattributed_service.app is not None
    export = unattributed_service.http.get("/rollouts/export").text
    inside.database(unattributed_service.app).change(
        lambda connection: connection.exec_driver_sql("DELETE FROM exchanges")
    )
    assert unattributed_service.http.get("/rollouts/export").text == export
    (judged,) = judge_export(export.splitlines())
    assert (judged.health.value, judged.warnings) == ("undecided", tuple(verdict["warnings"]))


def test_the_reserved_id_is_no_rollout(unattributed_service: Service) -> None:
    nameless(unattributed_service)
    problem(unattributed_service.http.post("/rollouts", json={"id": UNATTRIBUTED}), 422, "invalid")
    path = f"/rollouts/{UNATTRIBUTED}"
    problem(unattributed_service.http.post(f"{path}/outcome", json=SEEN), 422, "invalid")
    for each in ("verdict", "result"):
        problem(unattributed_service.http.get(f"{path}/{each}"), 404, "unknown_rollout")
    assert unattributed_service.get("/rollouts")["items"] == []
    (call,) = unattributed_service.get(f"{path}/exchanges")["items"]
    assert call["attribution_source"] == "unattributed"


# --- Scores that no model earned -----------------------------------------------------------------

PASSED = {"status": "success", "prompts_executed": 1, "rewards": {"reward": 1.0}}


def passed(service: Service, name: str, *, calls: int = 0, **facts: Any) -> dict[str, Any]:
    """Register a rollout of one task, make calls, and report that it passed; its verdict."""
    service.http.post("/rollouts", json={"id": name, "batch": "b", "task": "t", **facts})
    for _ in range(calls):
        service.call(name)
    assert service.http.post(f"/rollouts/{name}/outcome", json=PASSED).status_code == 200
    return dict(service.get(f"/rollouts/{name}/verdict"))


def spoken(output: int) -> Answer:
    """An answer of so many output tokens."""
    answer = answers.chat()
    body = json.loads(answer.content)
    body["usage"] |= {"completion_tokens": output, "total_tokens": output + 10}
    return replace(answer, body=(json.dumps(body).encode(),))


def unearned(verdict: dict[str, Any]) -> str | None:
    levels = [each["level"] for each in verdict["validity"] if each["check"] == "unearned"]
    return levels[0] if levels else None


def test_a_pass_whose_calls_all_failed_is_listed_as_unearned(
    unattributed_service: Service,
) -> None:
    service = unattributed_service
    assert unearned(passed(service, "answered", calls=1)) is None
    service.provider.plays(DEAD)
    assert unearned(passed(service, "failed", calls=1)) == "invalid"
    assert unearned(passed(service, "silent")) == "invalid"
    assert unearned(passed(service, "cached", client_cache=True)) is None
    assert unearned(passed(service, "own", usage_channel="none")) is None
    for name in ("failed", "silent"):
        assert service.get(f"/rollouts/{name}/result")["rewards"] is None
    listed = service.get("/rollouts", unearned="true")["items"]
    assert [item["id"] for item in listed] == ["failed", "silent"]
    assert len(service.get("/rollouts", unearned="false")["items"]) == 3
    assert service.get("/batches/b")["unearned"] == 2


def test_a_pass_beside_calls_that_named_nobody_may_have_been_earned(
    unattributed_service: Service,
) -> None:
    service = unattributed_service
    service.http.post("/rollouts", json={"id": "r", "batch": "b"})
    nameless(service)
    service.provider.plays(DEAD)
    verdict = passed(service, "r", calls=1, task=None)
    assert (verdict["rule"], unearned(verdict)) == ("all_failed", None)
    (judged,) = judge_export(service.http.get("/rollouts/export").text.splitlines())
    assert judged.validity == ()


def test_a_reward_range_says_which_reward_is_earned(service: Service) -> None:
    service.provider.plays(DEAD)
    assert unearned(passed(service, "r0", calls=1, reward_range=[1, 5])) is None
    assert unearned(passed(service, "r1", calls=1, batch="b2", reward_range=[0, 5])) == "invalid"


@pytest.mark.postgres_smoke
def test_a_pass_with_next_to_no_output_beside_its_tasks_others_is_told(
    unattributed_service: Service,
) -> None:
    service = unattributed_service
    for name, output in (("r0", 4000), ("r1", 5000)):
        service.provider.plays(spoken(output))
        assert unearned(passed(service, name, calls=1)) is None
    service.provider.plays(spoken(100))
    verdict = passed(service, "r2", calls=1)
    assert (unearned(verdict), verdict["scoreable"]) == ("info", "yes")
    assert unearned(passed(service, "other", calls=1, task="t2")) is None
    assert unearned(passed(service, "apart", calls=1, batch="b2")) is None
    assert service.get("/rollouts", unearned="true")["items"] == [], "a model answered it"
    exported = service.http.get("/rollouts/export").text.splitlines()
    judged = {each.rollout_id: each for each in judge_export(exported)}
    assert [each.check for each in judged["r2"].validity] == ["unearned"]
    assert service.get("/batches/b")["unearned"] == 0


# --- Attempts on a lane that answers nobody -------------------------------------------------------


def advice(service: Service, number: int, task: str = "t") -> dict[str, Any]:
    """Run an attempt at a task whose call fails; return its retry advice."""
    name = f"{task}{number}"
    body = {"id": name, "batch": "b", "task": task, "attempt": number}
    assert service.http.post("/rollouts", json=body).status_code == 201
    service.provider.plays(DOWN)
    service.call(name)
    service.http.post(f"/rollouts/{name}/outcome", json={"status": "success"})
    retry = service.get(f"/rollouts/{name}/verdict")["retry"]
    assert isinstance(retry, dict)
    return retry


def answer(service: Service) -> None:
    """Answer another rollout on the same lane."""
    service.provider.plays(answers.healthy)
    assert service.call("another").status_code == 200


FIRST, SECOND = "transient: retry 1 of 2", "transient: retry 2 of 2"
SILENT = "transient: nothing on the lane is answered, so this attempt does not count"
USED = "transient, but all 2 retries are used"


def test_attempts_while_a_lane_answers_nobody_do_not_count(service: Service) -> None:
    advised = [advice(service, number) for number in range(4)]
    assert [retry["eligible"] for retry in advised] == [True] * 4
    assert [retry["reason"] for retry in advised] == [FIRST, SECOND, *[SILENT] * 2]


def test_one_task_that_fails_beside_answered_ones_is_retried_as_often_as_ever(
    service: Service,
) -> None:
    advised = []
    for number in range(3):
        advised.append(advice(service, number))
        answer(service)
    assert [retry["reason"] for retry in advised] == [FIRST, SECOND, USED]
