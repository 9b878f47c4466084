"""Each fact about calls is one number: every place that shows it says the same.

Figures of a batch: `test_figures`.
"""

from __future__ import annotations

import json
import re
import sqlite3
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from html import unescape
from typing import Any

import pytest
from click.testing import CliRunner

from tests.fakes import answers
from tests.fakes.answers import Api, Fault
from tests.fakes.provider import Wait
from tests.proxy.api.test_routes import Service, serving
from tests.proxy.conftest import Services
from tests.proxy.control.test_batches import CHAT, play
from tests.proxy.web.test_pages import page, words
from tests.waiting import until
from truezero.cli import app as command_line

DEAD = answers.FAILURES[Api.CHAT][Fault.AUTH]
DOWN = answers.FAILURES[Api.CHAT][Fault.PROVIDER_ERROR]


@pytest.fixture
def service(services: Services) -> Service:
    """One with a batch of five, to which a test may add others."""
    service = services(BREAKER_THRESHOLD="50")
    play_five(service)
    return service


@pytest.fixture(scope="module")
def only_read(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """One with the same batch, for tests that change nothing: it is played once."""
    with serving(tmp_path_factory.mktemp("read"), BREAKER_THRESHOLD="50") as service:
        play_five(service)
        yield service


def play_five(service: Service) -> None:
    for name, answer, reward in (
        ("won", None, 1.0), ("lost", None, 0.0), ("dead", DEAD, 0.0), ("dead-2", DEAD, 0.0),
        ("down", DOWN, 0.0),
    ):  # fmt: skip
        play(service, name, answer, reward=reward, task=name)


CALLS = {"auth": 2, "provider error": 1, "all calls": 5}


def printed(service: Service, *command: str, exit_code: int = 0) -> str:
    where, wide = ["--url", str(service.http.base_url)], {"COLUMNS": "200"}
    told = CliRunner().invoke(command_line, [*command, *where], env=wide)
    assert told.exit_code == exit_code, told.output
    return " ".join(told.stdout.split())


def overview_of(service: Service, batch: str) -> str:
    return words(page(service, f"/ui/batches/{batch}"))


def overview(service: Service) -> str:
    return overview_of(service, "b")


def file(service: Service, path: str) -> list[dict[str, Any]]:
    """The rows of a view, as JSON lines."""
    joined = "&" if "?" in path else "?"
    lines = service.http.get(f"{path}{joined}file=jsonl").text.splitlines()
    return [json.loads(line) for line in lines]


def table(html: str, name: str) -> tuple[dict[str, list[str]], dict[str, str]]:
    """The values of a chart's table by head: those of each step, and those of all together."""
    (found,) = re.findall(rf'<details id="{name}-table"[^>]*>.*?</details>', html, re.DOTALL)
    heads = re.findall(r'<th scope="col" class="n">([^<]+)</th>', found)
    body, foot = found.split("<tfoot>")
    rows = [re.findall(r'<td class="n">([^<]+)</td>', row) for row in body.split("<tr>")[2:]]
    whole = re.findall(r'<td class="n">([^<]+)</td>', foot)
    return dict(zip(heads, map(list, zip(*rows, strict=True)), strict=True)), dict(
        zip(heads, whole, strict=True)
    )


def charted(service: Service, path: str, name: str) -> dict[str, int]:
    """What a chart's steps come to, which is what it says of all of them."""
    steps, whole = table(page(service, path), name)
    summed = {head: sum(map(int, values)) for head, values in steps.items()}
    assert summed == {head: int(value) for head, value in whole.items()}
    return summed


def recorded_calls(service: Service) -> dict[str, int]:
    names = [item["id"] for item in service.get("/rollouts")["items"]]
    calls = [c for name in names for c in service.get(f"/rollouts/{name}/exchanges")["items"]]
    failed = Counter(c["subcategory"].replace("_", " ") for c in calls if c["subcategory"])
    return {**failed, "all calls": len(calls)}


def upstream_figures(service: Service) -> dict[str, int]:
    (item,) = service.get("/upstreams")["items"]
    return {"all calls": item["calls"], **item["failed"]}


# A place that shows calls, and what it says.
PLACES: tuple[tuple[Callable[[Service], object], object], ...] = (
    (recorded_calls, CALLS),
    (lambda s: charted(s, "/ui/batches/b", "chart"), CALLS),
    (overview, "auth 2 provider error 1 all calls 5"),
    (upstream_figures, {"all calls": 5, "auth": 2, "provider_error": 1}),
    (lambda s: charted(s, "/ui/upstreams", "upstream-openai-calls"), CALLS),
    (lambda s: words(page(s, "/ui/upstreams")), "auth 2 provider error 1 all calls 5"),
)  # fmt: skip


@pytest.mark.parametrize(("place", "expected"), PLACES)
def test_calls_are_the_same_wherever_they_stand(
    only_read: Service, place: Callable[[Service], object], expected: object
) -> None:
    shown = place(only_read)
    if isinstance(shown, str):
        assert str(expected) in shown
    else:
        assert shown == expected


@pytest.mark.slow
def test_an_upstreams_models_and_keys_come_to_its_calls_wherever_they_stand(
    service: Service,
) -> None:
    ask = {"model": "gpt-5-mini", "messages": []}
    for key, answer in (("sk-1", None), ("sk-1", DEAD), ("sk-2", None)):
        service.provider.plays(answer or answers.chat())
        headers = {"authorization": f"Bearer {key}"}
        service.http.post(f"/r/{key}/openai{CHAT}", json=ask, headers=headers)
    (item,) = service.get("/upstreams")["items"]
    assert item["calls"] == 8
    assert sum(item["failed"].values()) == 4
    assert charted(service, "/ui/upstreams", "upstream-openai-calls")["all calls"] == 8
    rows = file(service, "/ui/upstreams?window=900")
    assert sum(row["calls"] for row in rows) == 8
    keys: dict[str | None, tuple[int, int]] = {}
    for row in rows:
        failed, calls = keys.get(row["key"], (0, 0))
        keys[row["key"]] = failed + row["failed"], calls + row["calls"]
    assert {(key or "-"): of for key, of in keys.items()} == {
        each["key"]: (each["failed"], each["calls"]) for each in item["keys"]
    }
    models = {
        each["model"]: (sum(each["failed"].values()), each["calls"]) for each in item["models"]
    }
    assert sorted(models.values()) == [(1, 1), (3, 7)], "by the model that answered, if one did"
    assert set(keys.values()) == {(3, 5), (1, 2), (0, 1)}


@pytest.mark.slow
def test_a_batch_without_zeros_says_so(service: Service) -> None:
    play(service, "fine", batch="fine", reward=1.0)
    assert "No zeros." in words(page(service, "/ui/batches/fine"))
    play(service, "real", batch="real", reward=0.0)
    shown = page(service, "/ui/batches/real")
    assert "The one zero is measured." in words(shown)
    assert "<s>0</s>" not in shown, "of no zero that there is"
    assert "the one zero is real" in words(page(service, "/"))
    play(service, "dead-too", DEAD, batch="real")
    assert "1 of 2 zeros is not a measurement." in words(page(service, "/ui/batches/real"))
    assert "3 of 4 zeros are not measurements. Score 0.200 → 0.500, not valid yet." in " ".join(
        re.sub("<[^>]*>", "", page(service, "/ui/batches/b")).split()
    )
    assert "would pull it down" not in overview_of(service, "real"), "0 with and without it"


def test_a_call_that_hangs_is_in_flight_everywhere_and_nobody_disconnected(
    service: Service,
) -> None:
    answer = threading.Event()
    service.provider.plays(answers.chat_stream().stopping_after(1, Wait(answer)))
    service.http.post("/rollouts", json={"id": "hangs", "batch": "h", "model": "gpt-5"})
    ask = {"model": "gpt-5", "messages": [], "stream": True}
    with service.http.stream("POST", "/r/hangs/openai/v1/chat/completions", json=ask) as response:
        assert response.status_code == 200
        until(lambda: "1 call in flight" in words(page(service, "/ui/batches/h")))
        with sqlite3.connect(service.database, timeout=60) as rows:
            rows.execute("UPDATE open_calls SET started_at = started_at - 125")
        for path in ("/", "/ui/batches/h", "/ui/rollouts/hangs"):
            shown = words(page(service, path))
            assert re.search(r"1 call in flight, for 2 min( \d+ s)?", shown), path
            assert "disconnected" not in shown, path
        warnings = service.get("/rollouts/hangs/verdict")["warnings"]
        assert "calls_in_flight" in warnings
        assert "calls_never_answered" not in warnings
        answer.set()
        response.read()


def test_a_call_that_waited_at_the_proxy_says_so_in_its_row(service: Service) -> None:
    assert "at the proxy before" not in page(service, "/ui/rollouts/won")
    with sqlite3.connect(service.database, timeout=60) as rows:
        rows.execute("UPDATE exchanges SET held_s = 5.5")
    assert "held 5.50 s at the proxy before" in words(page(service, "/ui/rollouts/won"))


def judged_by_a_dead_judge(service: Service) -> None:
    service.http.post("/rollouts", json={"id": "r", "batch": "j", "model": "gpt-5"})
    ask = {"model": "gpt-5", "messages": []}
    for role, answer in (("", answers.chat()), ("as/judge/", DEAD)):
        service.provider.plays(answer)
        service.http.post(f"/r/r/{role}openai{CHAT}", json=ask)
    seen = {"status": "success", "prompts_executed": 1, "rewards": {"reward": 0.0}}
    service.http.post("/rollouts/r/outcome", json=seen)


@pytest.mark.slow
def test_a_dead_judges_evidence_is_its_calls_and_its_reward_is_struck_out(
    service: Service,
) -> None:
    judged_by_a_dead_judge(service)
    (asked,) = service.get("/rollouts/r/verdict")["roles"]["judge"]["evidence"]
    calls = [call["id"] for call in service.get("/rollouts/r/exchanges")["items"]]
    assert calls.index(asked) + 1 == 2, "a call's number is its place in the rollout"
    shown = page(service, "/ui/rollouts/r")
    assert "Proof: call 2 , of role judge" in words(shown)
    assert re.findall(r'<li data-key="call (\d)"[^>]* class="evidence"', shown) == ["2"]
    assert "<s>0</s> <b>null</b>" in shown
    for path in ("/ui/rollouts?batch=j", "/ui/batches/j?tab=rollouts"):
        assert "<s>0</s> <b>null</b>" in page(service, path), path
    proof = page(service, "/ui/rollouts/r?show=proof")
    assert re.findall(r'<li data-key="call (\d)"', proof) == ["1", "2"], "what the panel shows"
    assert "<s>0</s> <b>null</b>" in proof
    (line,) = re.findall(r" 2 401 .*", printed(service, "verdict", "r"))
    assert "evidence" in line
    assert "null (0)" in printed(service, "list", "--batch", "j")


@pytest.mark.slow
def test_what_is_excluded_has_one_p_in_one_sentence(service: Service) -> None:
    play_biased(service)
    assert service.get("/batches/p")["exclusion_p"] == pytest.approx(0.0079, abs=5e-5)
    checked = service.get("/batches/p/check")
    assert "(p = 0.0079)" in checked["lines"][0]
    shown = {
        "page": words(page(service, "/ui/batches/p")),
        "printed check": printed(service, "check", "p", exit_code=1),
    }
    for place, text in shown.items():
        says_one_p(text, place)


def play_biased(service: Service) -> None:
    """Play a batch whose exclusions strike the harder tasks."""
    for n in range(10):
        lost = 0.0 if n % 2 else 1.0
        dead = DEAD if n % 2 else None
        play(service, f"a{n}", dead, batch="p", reward=0.0, task=f"t{n}", attempt=0)
        play(service, f"b{n}", batch="p", reward=lost, task=f"t{n}", attempt=0)


def says_one_p(text: str, place: str) -> None:
    assert "The missing repeats do not look random (p = 0.0079)" in text, place
    assert set(re.findall(r"p = ([\d.]+)", text)) == {"0.0079"}, place
    assert "Fisher" not in text, place


def test_the_key_that_is_dead_is_said(service: Service) -> None:
    ask = {"model": "gpt-5", "messages": []}
    service.http.post("/rollouts", json={"id": "named", "upstream": "openai"})
    for key, answer in (("sk-lives", None), ("sk-died", DEAD)):
        for n in range(5):
            service.provider.plays(answer or answers.chat())
            headers = {"authorization": f"Bearer {key}"}
            service.http.post(f"/r/{key}-{n}/openai{CHAT}", json=ask, headers=headers)
    (died,) = {call["key_digest"] for call in service.get("/rollouts/sk-died-0/exchanges")["items"]}
    (item,) = service.get("/upstreams")["items"]
    dead = {each["key"] for each in item["keys"] if each["failing_since"] is not None}
    assert dead == {died}
    rows = {row["key"]: row for row in file(service, "/ui/upstreams?window=900")}
    assert {key for key, row in rows.items() if row["since"] is not None} == {died}
    row = rows[died]
    assert (row["now"], row["cause"], row["whose"]) == ("down", "auth", "operator's")
    assert (row["failed"], row["calls"], row["key_from"]) == (5, 5, "an agent's own")
    shown = unescape(words(page(service, "/ui/upstreams")))
    said = rf"{died} down \d\d:\d\d:\d\d , for \d+ s none known 5 of 5 operator's "
    assert re.search(said, shown), shown
