"""The pages of batches: the list, and the tabs of one."""
# ruff: noqa: SLF001
# Private: Starlette's state has no public way to put one back.

from __future__ import annotations

import csv
import json
import os
import re
import shlex
import subprocess
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from html import unescape
from typing import Any
from urllib.parse import urlencode

import pytest
from click.testing import CliRunner

from proxy.control_plane import ControlPlane
from proxy.store.database import Database
from proxy.web import batch_pages
from proxy.web.panels import BatchAction
from tests.fakes import answers
from tests.proxy.api.test_routes import Service
from tests.proxy.conftest import Services
from tests.proxy.store.test_verdicts import verdict
from tests.proxy.web.test_pages import BROWSER, DEAD, TABS, listed, page, play, words
from truezero.cli import app as command_line

DOWN = answers.FAILURES[answers.Api.CHAT][answers.Fault.PROVIDER_ERROR]
LARGEST = 150_000  # bytes of a page, without pictures
UNCOUNTED = answers.whole({"choices": [{"message": {"content": "so"}}]})


@pytest.fixture
def service(on_both: Callable[..., Service]) -> Service:
    return on_both(BREAKER_THRESHOLD="2")


@pytest.fixture
def control_plane(service: Service) -> ControlPlane:
    assert service.app is not None
    return service.app.control_plane()


# --- the list ------------------------------------------------------------


def test_batches_show_score_interval_coverage_cost_and_earlier_runs(service: Service) -> None:
    for night, reward in ((20, 1.0), (21, 0.0)):
        for n in range(3):
            name = f"{night}-{n}"
            play(service, name, batch=f"n-2026-11-{night}", task=f"t{n}", reward=reward)
    play(service, "uncounted", UNCOUNTED, batch="n-2026-11-21", task="t3")
    html = page(service, "/")
    said = words(html)
    summary = service.get("/batches/n-2026-11-21")
    low, high = summary["score_ci"]
    assert f"0.000 measured, 95 % interval {low:.3f} to {high:.3f}" in html
    assert "✓ valid 0.000 4 of 4" in said
    assert 'title="1 of 4 calls without a known price">at least ' in html
    assert html.count('aria-label="Scores of this series, oldest first: 1.000, 0.000"') == 1
    assert html.index("/ui/batches/n-2026-11-21") < html.index("/ui/batches/n-2026-11-20")


def test_batches_are_ticked_for_what_may_be_done_with_them(
    service: Service, control_plane: ControlPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    play(service, "r")
    state = control_plane.app.state

    def shown(*actions: BatchAction) -> str:
        pages = replace(state.pages, batch_actions=actions)
        monkeypatch.setitem(state._state, "pages", pages)
        return page(service, "/")

    html = shown()
    assert "<form" not in html.partition('id="part-list"')[2].partition("</table>")[0]
    assert 'name="run"' not in html
    html = shown(BatchAction("/ui/fold", "Fold", "Fold them"), BatchAction("/ui/cut", "Cut", "Cut"))
    assert 'action="/ui/fold" class="tick" id="list"' in html
    assert 'name="run" value="b" aria-label="Fold, Cut b"' in html
    assert '<button class="small" formaction="/ui/cut">Cut</button>' in html


# --- one batch ------------------------------------------------------------


@pytest.mark.postgres_smoke
def test_the_first_screen_answers_whether_it_can_be_published(service: Service) -> None:
    play(service, "won", reward=1.0, task="won")
    said = words(page(service, "/ui/batches/b"))
    assert "No zeros. Score 1.000 , valid." in said
    assert "1 of 1 planned repeat measured ( 100% )" in said
    assert "Nothing: each planned repeat has a score." in said
    play(service, "down", DOWN, task="down")
    play(service, "dead", DEAD, task="dead")
    html = page(service, "/ui/batches/b")
    said = words(html)
    assert "2 of 2 zeros are not measurements. Score 0.333 → 1.000 , not valid yet." in said
    auth, down = (said.index(f"{cause} 1 1 openai") for cause in ("auth 401", "provider error 503"))
    assert auth < down, "in this order"
    assert "operator's run again Copy Replace the API key" in unescape(said)
    assert "2 without a score 2 2 of 3" in said


def test_each_tab_has_an_address_and_is_marked(service: Service) -> None:
    play(service, "r1", batch="x/y", task="t")
    for tab in TABS:
        html = page(service, "/ui/batches/x%2Fy", tab=tab)
        assert f'href="/ui/batches/x%2Fy?tab={tab}" aria-current="page"' in html, tab
        assert html.count('aria-current="page"') == 2, "it, and the entry of the navigation"
    page(service, "/ui/batches/x%2Fy", status=422, tab="nothing")
    for tab in TABS:
        page(service, "/ui/batches/nobody", status=404, tab=tab)


def test_an_address_of_the_first_release_shows_its_rollouts(service: Service) -> None:
    play(service, "fine")
    play(service, "dead", DEAD)
    assert listed(page(service, "/ui/batches/b", health="api_error")) == ["dead"]
    assert listed(page(service, "/ui/batches/b", q="fin")) == ["fine"]


def test_rollouts_that_were_not_measured_come_first(service: Service) -> None:
    for name, answer in (("fine", None), ("dead", DEAD), ("fine-2", None)):
        play(service, name, answer)
    shown = page(service, "/ui/batches/b", tab="rollouts")
    assert listed(shown) == ["dead", "fine-2", "fine"]
    assert shown.index("<h3>Not measured</h3>") < shown.index("<h3>Measured</h3>")
    asked = page(service, "/ui/batches/b", tab="rollouts", order="asc")
    assert listed(asked) == ["fine", "dead", "fine-2"]
    assert "<h3>" not in asked
    assert '<a href="?tab=rollouts#list">Started</a>' in asked, "back to both lists"
    page(service, "/ui/batches/b", status=422, tab="rollouts", colour="red")


def test_tasks_show_each_attempt_at_each_repeat(service: Service) -> None:
    play(service, "t-0-0", DOWN, task="t", repeat=0, attempt=0)
    play(service, "t-0-1", task="t", repeat=0, attempt=1, reward=1.0)
    play(service, "t-1-0", task="t", repeat=1, attempt=0)
    html = page(service, "/ui/batches/b", tab="tasks")
    assert "t 0.500 2 of 2" in words(html)
    assert "pale: another attempt counts" in words(html)
    cells = re.findall(r'<a class="(cell[^"]*)" href="/ui/rollouts/([^"]+)" title="([^"]+)"', html)
    assert cells == [
        ("cell old", "t-0-0", "repeat 0, attempt 0, provider error, another attempt counts"),
        ("cell", "t-0-1", "repeat 0, attempt 1, score 1"),
        ("cell", "t-1-0", "repeat 1, score 0"),
    ]
    assert "No rollout of this batch names a task" in _tasks_of_the_nameless(service)


@pytest.mark.postgres_smoke
def test_tasks_are_found_sorted_and_exported_as_they_are_shown(service: Service) -> None:
    for n, reward in enumerate((0.0, 1.0, 1.0)):
        play(service, f"r{n}", task=f"t|{n}", reward=reward, repeat=0, repeats=1 + n)
    html = page(service, "/ui/batches/b", tab="tasks")
    assert "2 of 3 tasks lack a repeat" in words(html)
    assert "3 tasks 0.667 3 of 6" in words(html)
    assert re.findall(r'data-key="task ([^"]+)"', html) == ["t|2", "t|1", "t|0"]
    html = page(service, "/ui/batches/b", tab="tasks", show="one", sort="task")
    assert re.findall(r'data-key="task ([^"]+)"', html) == ["t|1", "t|2"]
    assert "2 tasks in this view 1.000 2 of 5" in words(html)
    files = {
        unescape(href).rpartition("file=")[2]: service.http.get("/ui/batches/b" + unescape(href))
        for href in re.findall(r'<a href="([^"]+)" download>', html)
    }
    assert set(files) == {"csv", "jsonl"}
    assert files["csv"].text.split() == [
        "task,score,measured,repeats",
        "t|1,1.0,1,2",
        "t|2,1.0,1,3",
    ]
    assert [json.loads(line)["task"] for line in files["jsonl"].text.split()] == ["t|1", "t|2"]
    (command,) = re.findall(r'<code tabindex="0">(curl[^<]*)</code>', html)
    done = subprocess.run(["bash", "-c", unescape(command)], capture_output=True, check=True)
    assert done.stdout == files["csv"].content
    page(service, "/ui/batches/b", status=422, tab="tasks", file="exe")


def test_every_header_of_the_tasks_sorts_and_each_filter_is_a_chip(service: Service) -> None:
    for n, reward in enumerate((0.0, 1.0, 1.0)):
        play(service, f"r{n}", task=f"t-{n}", reward=reward, repeat=0, repeats=1 + n)
    html = page(service, "/ui/batches/b", tab="tasks", text="t", show="one")
    chips = re.findall(r'<a href="([^"]+)" aria-label="Remove the filter ([^"]+)"', html)
    assert [(unescape(to), name) for to, name in chips] == [
        ("?tab=tasks&text=t#tasks", "show one"), ("?tab=tasks&show=one#tasks", "text t"),
    ]  # fmt: skip
    table = re.search(r'<table class="listing strips">.*?</thead>', html, re.DOTALL)
    assert table is not None
    heads = re.findall(r'<th scope="col"[^>]*>(?:<a href="\?([^"]+)#tasks">)?([\w –]+)', table[0])
    assert [label.strip() for _, label in heads] == ["Task", *batch_pages._TASK_COLUMNS.values()]
    sorted_by = [(to, label) for to, label in heads if to]
    assert len(sorted_by) == 1 + len(batch_pages._TASK_SORTED)
    for to, label in sorted_by:
        assert 'aria-sort="' in page(service, f"/ui/batches/b?{unescape(to)}"), label
    page(service, "/ui/batches/b", status=422, tab="tasks", sort="gaps")


def test_a_column_of_the_scores_lists_its_tasks(service: Service) -> None:
    for n, reward in enumerate((0.0, 0.3, 0.3, 1.0)):
        play(service, f"r{n}", task=f"t-{n}", reward=reward)
    html = page(service, "/ui/batches/b", tab="tasks")
    columns = re.findall(r'<a href="\?([^"]+)#tasks" aria-label="([^"]*): (\d+) tasks?">', html)
    assert [(words_, int(tasks)) for _, words_, tasks in columns] == [
        ("score below 0.05", 1), ("score 0.3 to 0.35", 2), ("score 0.95 and more", 1),
    ]  # fmt: skip
    for to, _, tasks in columns:
        shown = page(service, f"/ui/batches/b?{unescape(to)}")
        assert len(re.findall(r'data-key="task ', shown)) == int(tasks), to
        assert 'aria-label="Remove the filter score' in shown
    for wrong in ("1", "a..b", "..."):
        page(service, "/ui/batches/b", status=422, tab="tasks", score=wrong)


def test_the_map_has_all_tasks_and_leads_to_each_line(service: Service) -> None:
    play(service, "whole", task="a")
    play(service, "dead", DEAD, task="b")
    html = page(service, "/ui/batches/b", tab="tasks")
    assert 'aria-label="2 tasks in the order of their names, 1 with a gap"' in html
    assert re.findall(r'class="lacks l(\d)"', html) == ["0", "4"]
    assert "<title>a to b: 1 with a gap</title>" in html
    page(service, "/ui/batches/b?tab=tasks&sort=task&page=1")


@pytest.mark.parametrize(
    ("path", "chosen", "others", "header"),
    [
        ("/ui/batches/b?tab=tasks", ("measured",), ("Score", "Repeats"), "task,measured"),
    ],
)  # fmt: skip
def test_chosen_columns_are_what_a_table_its_address_and_its_file_have(
    service: Service, path: str, chosen: Sequence[str], others: Sequence[str], header: str
) -> None:
    columns_are_as_chosen(service, path, chosen, others, header)


def columns_are_as_chosen(
    service: Service, path: str, chosen: Sequence[str], others: Sequence[str], header: str
) -> None:
    """Leave out columns of a table: its address and its file have the others."""
    play(service, "r", DEAD, task="t", repeat=0)
    every = re.findall(r'name="columns" value="(\w+)" checked', page(service, path))
    assert {*chosen} < {*every}, "all are shown, and each can be left out"
    ticked = f"{path}&{urlencode([('columns', name) for name in chosen])}&columns="
    sent = service.http.get(ticked, headers=BROWSER)
    assert (sent.status_code, sent.headers["location"]) == (
        303,
        f"{path}&columns={','.join(chosen)}",
    )
    html = page(service, sent.headers["location"])
    heads = re.findall(r'<th scope="col"[^>]*><a [^>]*>([\w ,]+?) ?[↓↑]?</a>', html)
    assert len(heads) == 1 + len(chosen), heads
    assert not {*heads} & {*others}
    file = service.http.get(f"{sent.headers['location']}&file=csv").text
    assert file.splitlines()[0] == header
    (link,) = re.findall(r'<a href="\?([^"]+)" download>CSV</a>', html)
    assert service.http.get(f"{path.partition('?')[0]}?{unescape(link)}").text == file


@pytest.mark.parametrize(
    ("path", "first", "named"),
    [
        ("/?", "batch", "b"), ("/?order=asc&show=invalid&", "batch", "b"),
        ("/ui/rollouts?", "id", "r"), ("/ui/batches/b?tab=tasks&", "task", "t"),
        ("/ui/batches/b?tab=cost&", "model", "gpt-5"), ("/ui/batches/b?tab=again&", "task", "t"),
        ("/ui/causes?", "fingerprint", "auth:401"), ("/ui/upstreams?", "upstream", "openai"),
    ],
)  # fmt: skip
def test_a_lists_file_has_its_rows(service: Service, path: str, first: str, named: str) -> None:
    play(service, "r", DEAD, task="t", repeat=0)
    row, *_ = csv.DictReader(service.http.get(f"{path}file=csv").text.splitlines())
    assert next(iter(row.items())) == (first, named)


def _tasks_of_the_nameless(service: Service) -> str:
    play(service, "nameless", batch="other")
    return page(service, "/ui/batches/other", tab="tasks")


@pytest.mark.slow
def test_every_tab_of_300_rollouts_is_small(service: Service) -> None:
    batch = "terminal-bench-nightly-2026-11-22"
    names = [f"{batch}/fix-the-failing-build-of-package-{n:03d}" for n in range(300)]
    made = [{"id": name, "batch": batch, "task": name} for name in names]
    service.http.post("/rollouts/bulk", json={"rollouts": made}).raise_for_status()
    failed = {
        "health": "api_error", "subcategory": "auth", "fingerprint": "auth:401",
        "lane": "anthropic/claude-sonnet-4-5-20250929/key-3f9a", "batch": batch,
    }  # fmt: skip
    said = {"error": "api_error [auth, permanent]: HTTP 401 on 4 of 4 calls", "retry": {}}
    with closing(Database(service.database)) as database:
        for name in names:
            row = {**verdict(name), **failed, "verdict": json.dumps(said)}
            database.verdicts.store(row)
    sizes = {tab: len(page(service, f"/ui/batches/{batch}?tab={tab}").encode()) for tab in TABS}
    assert "300 rollouts" in page(service, f"/ui/batches/{batch}")
    assert {tab: size for tab, size in sizes.items() if size > LARGEST} == {}


def test_costs_say_how_many_calls_have_no_price(service: Service) -> None:
    play(service, "priced")
    play(service, "unpriced", answers.chat("nobody-knows"), model="nobody-knows")
    said = words(page(service, "/ui/batches/b", tab="cost"))
    usage = service.get("/batches/b/usage", by="model")
    cost = f"at least ${usage['sum']['cost_usd']:.4f}"
    assert f"{cost.capitalize()} for 2 calls. 1 of 2 calls without a known price" in said
    assert "paid tools" not in said.partition("By model")[0]
    assert re.search(r"nobody-knows not priced 1 of 1 1 0 ", said)
    play(service, "priority", answers.chat(service_tier="priority"))
    said = words(page(service, "/ui/batches/b", tab="cost"))
    assert "2 of 3 calls without a known price · 1 call had a non-standard tier" in said
    assert "By model 2 By role 1 By upstream 1" in said
    for by, only in (("role", "agent"), ("upstream", "openai")):
        html = page(service, "/ui/batches/b", tab="cost", by=by)
        assert re.findall(rf'data-key="{by} ([^"]+)"', html) == [only]
    page(service, "/ui/batches/b", status=422, tab="cost", by="batch")


def test_costs_are_sorted_found_and_exported_as_they_are_shown(service: Service) -> None:
    play(service, "dear", answers.chat("gpt-4o"), batch="b")
    for n in range(2):
        play(service, f"cheap-{n}", batch="b")
    play(service, "unknown", answers.chat("nobody-knows"), batch="b")

    def models(**query: Any) -> list[str]:
        html = page(service, "/ui/batches/b", tab="cost", **query)
        return re.findall(r'data-key="model ([^"]+)"', html)

    names = models(sort="name")
    assert names == sorted(names)
    assert models() == models(sort="cost")
    assert models()[-1] == models(sort="cost", order="asc")[-1] == "nobody-knows", "unknown last"
    assert models(sort="unpriced")[0] == "nobody-knows"
    assert models(sort="calls")[0] == "gpt-5"
    assert models(text="NOBODY") == ["nobody-knows"]
    html = page(service, "/ui/batches/b", tab="cost", sort="calls", columns="cost,calls")
    link = re.search(r'<a href="([^"]+)" download>CSV', html)
    assert link is not None
    file = service.http.get("/ui/batches/b" + unescape(link[1])).text.splitlines()
    assert file[0] == "model,cost_usd,calls"
    assert [line.partition(",")[0] for line in file[1:]] == models(sort="calls")
    page(service, "/ui/batches/b", status=422, tab="cost", sort="share")


def told_by(command: str) -> list[str]:
    """The lines that a command of `truezero` prints, in this process."""
    name, *rest = shlex.split(command)
    assert name == "truezero"
    done = CliRunner().invoke(command_line, rest)
    assert done.exit_code == 0, done.output
    return done.stdout.splitlines()


@pytest.mark.parametrize("required", [False, True])
@pytest.mark.parametrize("token", ["", "t0ken"])
def test_the_command_on_an_empty_page_works_against_that_very_service(
    services: Services, token: str, required: bool
) -> None:
    first = "1" if required else "0"
    service = (
        services(ADMIN_TOKEN=token, REQUIRE_REGISTRATION=first)
        if token
        else services(REQUIRE_REGISTRATION=first)
    )
    signed_in = {"authorization": f"Bearer {token}"} if token else {}
    html = service.http.get("/", headers=signed_in).text
    (command,) = re.findall(r'<code tabindex="0">([^<]*curl[^<]*)</code>', html)
    done = subprocess.run(
        ["bash", "-c", unescape(command)],
        env={"PATH": os.environ["PATH"], "OPENAI_API_KEY": "sk-x", "TRUEZERO_ADMIN_TOKEN": token},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert '"choices"' in done.stdout, done
    told = service.http.get("/rollouts/my-first-rollout/verdict", headers=signed_in).json()
    assert (told["health"], told["total_requests"]) == ("healthy", 1)


def test_any_reward_is_a_reward(service: Service) -> None:
    for n, reward in enumerate((-1.5, 0.5, 2.0, 1e12)):
        play(service, f"r{n}", batch="wide", task=f"t{n}", reward=reward)
    play(service, "dead", DEAD, batch="wide", task="dead")
    summary = service.get("/batches/wide")
    assert (summary["score_worst"], summary["score_best"]) == (None, None)
    assert (summary["reward_least"], summary["reward_greatest"]) == (-1.5, 1e12)
    said = words(page(service, "/ui/batches/wide"))
    assert "rewards seen -1.5 to 1e+12 , no range was registered" in said
    assert "if all that is missing" not in said
    assert "000000000" not in said, "it would overflow its tile"
    assert "2.5e+11" in words(page(service, "/"))
    tasks = words(page(service, "/ui/batches/wide", tab="tasks"))
    assert "Score 0" not in tasks
    assert "least seen, -1.5 between greatest seen, 1e+12" in tasks


def test_a_registered_range_of_rewards_bounds_the_score(service: Service) -> None:
    for name, reward, answer in (("low", -1.0, None), ("high", 3.0, None), ("dead", 0.0, DEAD)):
        play(service, name, answer, batch="b", task=name, reward=reward, reward_range=[-1, 3])
    summary = service.get("/batches/b")
    bounds = (summary["score_worst"], summary["score_best"])
    assert bounds == pytest.approx((1 / 3, 5 / 3))
    tasks = words(page(service, "/ui/batches/b", tab="tasks"))
    assert "Score -1 1 Score 3 1" in tasks
    assert "score -1 between score 3" in tasks
