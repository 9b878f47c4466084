"""Each fact about a batch is one number: every place that shows it says the same."""

from __future__ import annotations

import json
import re
import sqlite3
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from html import unescape
from typing import Any

import pytest
from click.testing import CliRunner

from proxy.web.format import dollars
from tests.fakes import answers, replies
from tests.fakes.answers import Api, Fault
from tests.fakes.provider import Wait
from tests.proxy.api.test_routes import Service, serving
from tests.proxy.conftest import Services
from tests.proxy.control.test_batches import CHAT, play
from tests.proxy.web.test_pages import TABS, page, words
from tests.waiting import until
from truezero.cli import app as command_line

DEAD = answers.FAILURES[Api.CHAT][Fault.AUTH]
EMPTY = replies.answer(
    Api.CHAT, replies.Reply(model="gpt-5", input_tokens=9000, output_tokens=0, text=()),
    streams=False,
)  # fmt: skip
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


def listed(service: Service) -> Mapping[str, Any]:
    (item,) = service.get("/batches")["items"]
    return dict(item)


def printed(service: Service, *command: str, exit_code: int = 0) -> str:
    where, wide = ["--url", str(service.http.base_url)], {"COLUMNS": "200"}
    told = CliRunner().invoke(command_line, [*command, *where], env=wide)
    assert told.exit_code == exit_code, told.output
    return " ".join(told.stdout.split())


def overview_of(service: Service, batch: str) -> str:
    return words(page(service, f"/ui/batches/{batch}"))


def overview(service: Service) -> str:
    return overview_of(service, "b")


def batches_page(service: Service) -> str:
    return words(page(service, "/"))


def file(service: Service, path: str) -> list[dict[str, Any]]:
    """The rows of a view, as JSON lines."""
    joined = "&" if "?" in path else "?"
    lines = service.http.get(f"{path}{joined}file=jsonl").text.splitlines()
    return [json.loads(line) for line in lines]


def struck_zeros(service: Service, path: str) -> int:
    rows = file(service, f"{path}&columns=reward,reported_reward")
    return sum(row["reported_reward"] == 0 and row["reward"] is None for row in rows)


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


# A figure, a place that shows it, and what that place says.
PLACES: tuple[tuple[str, Callable[[Service], object], object], ...] = (
    ("zeros", overview, "3 of 4 zeros are not measurements."),
    ("zeros", overview, "auth 401 2 2 openai"),
    ("zeros", overview, "provider error 503 1 1 openai"),
    ("zeros", overview, "3 without a score 3 3 of 5"),
    ("zeros", batches_page, "3 of 4 zeros"),
    ("zeros", lambda s: printed(s, "batch", "b"),
     "3 of 4 zeros are not measurements: 2 auth, 1 provider error"),
    ("zeros", lambda s: printed(s, "batches"), "3 of 4 zeros"),
    ("zeros", lambda s: struck_zeros(s, "/ui/rollouts?batch=b"), 3),
    ("zeros", lambda s: struck_zeros(s, "/ui/batches/b?tab=rollouts"), 3),
    ("calls", recorded_calls, CALLS),
    ("calls", lambda s: charted(s, "/ui/batches/b", "chart"), CALLS),
    ("calls", overview, "auth 2 provider error 1 all calls 5"),
    ("calls", upstream_figures, {"all calls": 5, "auth": 2, "provider_error": 1}),
    ("calls", lambda s: charted(s, "/ui/upstreams", "upstream-openai-calls"), CALLS),
    ("calls", lambda s: words(page(s, "/ui/upstreams")), "auth 2 provider error 1 all calls 5"),
)  # fmt: skip


@pytest.mark.parametrize(
    ("place", "expected"), [each[1:] for each in PLACES],
    ids=[f"{figure}-{n}" for n, (figure, *_) in enumerate(PLACES)],
)  # fmt: skip
def test_a_figure_is_the_same_wherever_it_stands(
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
def test_an_empty_answer_costs_its_input_wherever_cost_stands(service: Service) -> None:
    play(service, "full", batch="e", task="full", reward=1.0)
    play(service, "empty", EMPTY, batch="e", task="empty")
    cost = service.get("/batches/e/usage")["sum"]["cost_usd"]
    alone = service.get("/rollouts/empty/verdict")["cost_usd"]
    assert alone > 0
    assert service.get("/batches/e")["cost_usd"] == pytest.approx(cost)
    for path in ("/ui/batches/e", "/ui/batches/e?tab=cost", "/"):
        assert dollars(cost) in words(page(service, path)), path


def test_a_zero_that_does_not_count_is_struck_out_in_every_list(only_read: Service) -> None:
    for path in ("/ui/rollouts", "/ui/batches/b?tab=rollouts"):
        html = page(only_read, path)
        struck = re.findall(
            r'<a class="id clip" href="[^"]*/([\w-]+)[^"]*">.*?</tr>', html, re.DOTALL
        )
        assert len(struck) == 5, path
        assert html.count("<s>0</s> <b>null</b>") == 3, path
    items = {item["id"]: item for item in only_read.get("/rollouts")["items"]}
    rewards = {name: (item["reward"], item["reported_reward"]) for name, item in items.items()}
    assert rewards == {
        "won": (1.0, 1.0), "lost": (0.0, 0.0), "dead": (None, 0.0), "dead-2": (None, 0.0),
        "down": (None, 0.0),
    }  # fmt: skip
    assert printed(only_read, "list").count("null (0)") == 3


def test_the_zeros_of_the_headline_are_the_rows_that_it_leads_to(service: Service) -> None:
    """A zero of an attempt that another replaced, or of one that still runs, is none of them."""
    again: dict[str, Any] = {"batch": "z", "task": "t", "repeat": 0}
    play(service, "first", DEAD, attempt=0, **again)
    play(service, "second", DEAD, attempt=1, **again)
    play(service, "filled", DEAD, attempt=0, **again | {"repeat": 1})
    play(service, "refilled", reward=1.0, attempt=1, **again | {"repeat": 1})
    play(service, "real", reward=0.0, batch="z", task="u")
    shown = page(service, "/ui/batches/z")
    assert "1 of 2 zeros is not a measurement." in words(shown)
    (href,) = re.findall(r'<a href="([^"]*)" data-figure="zeros.not_measured">', shown)
    assert [row["id"] for row in file(service, f"/ui/batches/z{unescape(href)}")] == ["second"]


def test_a_page_shows_one_coverage_and_it_is_of_the_two_numbers_beside_it(
    service: Service,
) -> None:
    """Of a rollout without a reward the model was reached, and nothing was measured."""
    for name, seen in (("won", {"rewards": {"reward": 1.0}}), ("open", {})):
        service.http.post("/rollouts", json={"id": f"c-{name}", "batch": "c", "model": "gpt-5"})
        service.provider.plays(answers.chat())
        service.call(f"c-{name}")
        outcome = {"status": "success", "prompts_executed": 1, **seen}
        service.http.post(f"/rollouts/c-{name}/outcome", json=outcome)
    play(service, "c-dead", DEAD, batch="c")
    summary = service.get("/batches/c")
    assert (summary["scoreable"], summary["scored"], summary["total"]) == (2, 1, 3)
    assert summary["coverage"] == pytest.approx(1 / 3)
    for path in ("/ui/batches/c", "/"):
        shown = words(page(service, path))
        assert "1 of 3" in shown
        shares = {"33.3"} if path != "/" else set()
        assert set(re.findall(r"([\d.]+)%", shown.replace("95 %", ""))) == shares, path


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


@pytest.mark.slow
def test_what_runs_is_one_number_judged_or_not(service: Service) -> None:
    """Of three that run, none was judged; then one is, as reading its verdict does."""
    for name in ("one", "two", "three"):
        service.http.post("/rollouts", json={"id": name, "batch": "live", "task": name})
    play(service, "done", batch="live", task="done", reward=1.0)
    for judged in ((), ("one",), ("one", "two", "three")):
        for name in judged:
            service.get(f"/rollouts/{name}/verdict")
        for tab in TABS:
            said = words(page(service, "/ui/batches/live", tab=tab))
            assert "4 rollouts · 3 running" in said
        assert re.search(r"live running, 1 of 4", batches_page(service))
        assert "4, 3 running, 0 skipped" in printed(service, "batch", "live")
        assert re.search(r"live 4 3 1 of \d", printed(service, "batches"))


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
