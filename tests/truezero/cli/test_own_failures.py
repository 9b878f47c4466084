"""An agent's own failures are a class of their own, on every surface."""

from __future__ import annotations

import csv
import html
import io
import json
from collections.abc import Iterator

import pytest

from tests import forked
from tests.fakes import answers
from tests.fakes.answers import FAILURES, Api, Fault
from tests.proxy.api.test_routes import Service, serving
from tests.proxy.web.test_pages import words
from tests.truezero.cli.test_batches import environment

SENTENCE = "no model answered: the agent's own failures; the zero counts"

OWN = ("bogus", "mute")


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A batch of untrusted agents: one solves its task, two fail by themselves."""
    with serving(tmp_path_factory.mktemp("service"), BREAKER_THRESHOLD="1") as served:
        for name, reward in (("won", 1.0), ("lost", 0.0), ("bogus", 0.0), ("mute", 0.0)):
            facts = {"id": name, "batch": "b", "task": name, "policy": {"agents": "untrusted"}}
            served.http.post("/rollouts", json=facts).raise_for_status()
            served.provider.plays(
                FAILURES[Api.CHAT][Fault.AUTH] if name == "bogus" else answers.healthy
            )
            for _ in range({"mute": 0, "bogus": 3}.get(name, 1)):
                served.call(name)
            outcome = {"status": "success", "prompts_executed": 1, "rewards": {"reward": reward}}
            served.http.post(f"/rollouts/{name}/outcome", json=outcome).raise_for_status()
        yield served


def truezero(service: Service, *words: str, **more: str) -> str:
    url = str(service.http.base_url)
    ended = forked.run(*words, cwd=forked.ROOT, env=environment(TRUEZERO_URL=url, **more))
    assert ended.returncode in (0, 1), ended.stderr
    return ended.stdout


def test_lists_show_and_find_them(service: Service) -> None:
    found = service.get("/rollouts", rule="own_failures")["items"]
    assert [(each["id"], each["own_failures"]) for each in found] == [(n, True) for n in OWN]
    assert [x["id"] for x in service.get("/rollouts", rule="healthy")["items"]] == ["won", "lost"]
    query = "/rollouts?rule=healthy&rule=own_failures&order=desc"
    both = service.http.get(query).raise_for_status().json()["items"]
    assert [each["own_failures"] for each in both] == [True, True, False, False]
    assert service.get("/rollouts", rule="all_failed")["items"] == []


def test_a_batch_counts_them_beside_what_was_measured_and_no_score_changes(
    service: Service,
) -> None:
    summary = service.get("/batches/b")
    assert (summary["own_failures"], summary["scoreable"], summary["scored"]) == (2, 4, 4)
    assert (summary["score_effective"], summary["score_all"]) == (0.25, 0.25)
    assert summary["zeros"] == {"reported": 3, "not_measured": 0, "by_cause": {}}
    lines = service.get("/batches/b/check")["lines"]
    assert sum(SENTENCE in line for line in lines) == 2


def test_commands_print_the_class(service: Service) -> None:
    assert f"bogus  {SENTENCE}" in truezero(service, "verdict", "bogus")
    batch = " ".join(truezero(service, "batch", "b").split())
    assert "own failures 2 scores of agents' own failures: no model answered" in batch
    assert truezero(service, "check", "b").count(SENTENCE) == 2
    listed = truezero(service, "list", "--rule", "own_failures", COLUMNS="200")
    assert listed.count("agent's own failure") == 2
    assert "won" not in listed
    told = json.loads(truezero(service, "list", "--rule", "own_failures", "--json"))
    assert {each["id"] for each in told} == set(OWN)
    rows = list(csv.DictReader(io.StringIO(truezero(service, "list", "--csv"))))
    assert len(rows) == 4


def test_pages_do_not_say_that_a_model_was_reached(service: Service) -> None:
    for name in OWN:
        page = html.unescape(service.http.get(f"/ui/rollouts/{name}").text)
        assert SENTENCE.partition(": ")[2] in page
        assert "The model was reached" not in page
    batch = service.http.get("/ui/batches/b").text
    said = html.unescape(words(batch))
    assert "All 3 zeros count." in said
    assert "4 of 4 planned repeats count ( 100% ): 2 measured, 2 are agents' own failures" in said
    assert 'href="?tab=rollouts&amp;rule=own_failures"' in batch
    listed = service.http.get("/ui/rollouts", params={"rule": "own_failures"}).text
    assert listed.count("agent&#39;s own failure") >= len(OWN)
    assert "/rollouts/won" not in listed
