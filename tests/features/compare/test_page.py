"""The page of two batches compared, and the list that leads to it."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable
from html import unescape
from typing import Any

import pytest

from proxy.features.compare.page import difference
from tests.features.compare.test_comparison import nights
from tests.features.help.test_pages import asked_about, headed_words
from tests.proxy.api.test_routes import Service
from tests.proxy.web.test_batch_pages import columns_are_as_chosen
from tests.proxy.web.test_list_pages import has_the_same_controls
from tests.proxy.web.test_pages import BROWSER, DEAD, page, play, quotes_nobody, words
from tests.proxy.web.test_render import keeps_to_its_origin

COMPARE = "/ui/compare"


@pytest.fixture
def service(on_both: Callable[..., Service]) -> Service:
    return on_both(BREAKER_THRESHOLD="2")


@pytest.mark.postgres_smoke
def test_two_ticked_batches_are_compared_the_older_first(service: Service) -> None:
    play(service, "r1", batch="x/first", task="t")
    play(service, "r2", batch="second", task="t", reward=1.0)
    assert 'name="run" value="x/first"' in page(service, "/")
    answer = service.http.get("/ui/compare", params={"run": ["second", "x/first"]}, headers=BROWSER)
    assert answer.status_code == 303
    assert answer.headers["location"] == "/ui/compare?a=x%2Ffirst&b=second"
    told = words(page(service, answer.headers["location"]))
    assert "No difference is shown." in told
    assert "+1.000 over the 1 task that both measured; with 95 % confidence between" in told
    assert "both measured 0.000 → 1.000" in told
    assert "1 batch ticked: tick two" in words(page(service, "/ui/compare?run=second"))


@pytest.mark.slow
def test_a_comparison_names_what_broke_and_what_was_not_measured(service: Service) -> None:
    nights(service)
    html = page(service, "/ui/compare", a="last", b="tonight")
    said = words(html)
    assert "over the 3 tasks that both measured" in said
    assert "down lower -1.000 1.000 0.000" in said
    assert "up higher +1.000 0.000 1.000" in said
    assert "fake not measured in B not known 1.000 not measured" in said
    assert "same unchanged 0 1.000 1.000" in said
    assert "A last 0.750" in said
    assert "B tonight 0.667" in said
    assert 'href="/ui/rollouts/tonight-fake"' in html
    assert "truezero compare last tonight" in said
    only = words(page(service, "/ui/compare", a="last", b="tonight", change="fixed"))
    assert "up higher" in only
    assert "down lower" not in only


@pytest.mark.slow
def test_compared_tasks_are_sorted_filtered_and_leave_as_a_file(service: Service) -> None:
    nights(service)
    both: dict[str, Any] = {"a": "last", "b": "tonight"}

    def order(**query: Any) -> list[str]:
        return re.findall(r'<tr data-key="task (\w+)">', page(service, COMPARE, **both, **query))

    assert order() == ["down", "up", "fake", "same"], "broken first"
    assert order(order="desc") == order()[::-1]
    assert order(sort="task") == ["down", "fake", "same", "up"]
    assert order(sort="difference") == ["up", "same", "down", "fake"], "unknown last"
    assert order(sort="difference", order="asc") == ["down", "same", "up", "fake"]
    assert order(sort="a", order="asc")[0] == order(sort="b")[0] == "up"
    html = page(service, COMPARE, **both, sort="task", text="A", change="unchanged")
    assert re.findall(r'<tr data-key="task (\w+)">', html) == ["same"]
    chips = re.findall(r'<a href="([^"]+)" aria-label="Remove the filter ([^"]+)"', html)
    assert [(unescape(to), name) for to, name in chips] == [
        ("?a=last&b=tonight&text=A&sort=task#tasks", "change unchanged"),
        ("?a=last&b=tonight&change=unchanged&sort=task#tasks", "text A"),
    ]
    heads = re.findall(r'<th scope="col"([^>]*)><a href="[^"]+">([^<]+)</a>', html)
    assert [label for _, label in heads] == ["Task", "Change", "Difference", "A", "B"]
    assert [label for attributes, label in heads if "aria-sort" in attributes] == ["Task"]
    link = re.search(
        r'<a href="\?([^"]+)" download>CSV</a>', page(service, COMPARE, **both, text="a")
    )
    assert link is not None
    rows = list(csv.reader(io.StringIO(service.http.get(f"{COMPARE}?{unescape(link[1])}").text)))
    assert [row[0] for row in rows[1:]] == order(text="a")
    assert rows[0][:6] == ["task", "change", "difference", "score_a", "measured_a", "repeats_a"]
    assert rows[1] == ["fake", "not measured in B", "", "1.0", "1", "1", "", "0", "1"]
    file = service.http.get(COMPARE, params={**both, "file": "jsonl"}).text.splitlines()
    told = {task["task"]: task["change"] for task in map(json.loads, file)}
    assert told == {"up": "higher", "down": "lower", "same": "unchanged",
                    "fake": "not measured in B"}, "the words of the page"  # fmt: skip
    page(service, COMPARE, status=422, **both, sort="age")


def test_an_interval_without_zero_is_called_a_difference(service: Service) -> None:
    for n in range(4):
        play(service, f"a{n}", batch="a", task=f"t{n}", reward=1.0)
        play(service, f"b{n}", batch="b", task=f"t{n}", reward=0.0)
    said = words(page(service, "/ui/compare", a="a", b="b"))
    assert "B scores lower than A. -1.000 over the 4 tasks" in said
    assert "from chance takes" not in said


def test_tasks_are_drawn_with_their_repeats_and_what_one_of_them_did_is_said(
    service: Service,
) -> None:
    for task, before, after in (("one", (1, 0), (1, 1)), ("all", (0, 0), (1, 1))):
        for batch, rewards in (("a", before), ("b", after)):
            for n, reward in enumerate(rewards):
                name = f"{batch}-{task}-{n}"
                play(service, name, batch=batch, task=task, repeat=n, reward=float(reward))
    html = page(service, "/ui/compare", a="a", b="b")
    rows = dict(re.findall(r'<tr data-key="task (\w+)">(.*?)</tr>', html, re.DOTALL))
    assert list(rows) == ["all", "one"], "the greatest difference first"
    assert {task: 'class="tag"' in row for task, row in rows.items()} == {"all": False, "one": True}
    assert all(row.count('class="cell"') == 4 for row in rows.values())
    ends = re.findall(r'<line class="m-fixed" x1="([\d.]+)%" x2="([\d.]+)%"', html)
    assert ends == [("0.0", "100.0"), ("50.0", "100.0")]
    several = page(service, "/ui/compare", a="a", b="b", change="several")
    assert re.findall(r'<tr data-key="task (\w+)">', several) == ["all"]
    assert "By more than one repeat 1" in words(html)


def test_what_cannot_be_compared_is_said(service: Service) -> None:
    play(service, "r1", batch="one")
    play(service, "r2", batch="two")
    said = words(page(service, "/ui/compare", a="one", b="two"))
    assert "No task was measured in both." in said
    assert "2 rollouts name no task" in said
    page(service, "/ui/compare", status=404, a="one", b="nobody")
    page(service, "/ui/compare", status=422, a="one", b="two", change="worse")


def test_it_quotes_nobody_and_keeps_to_its_origin(service: Service) -> None:
    play(service, "dead", DEAD)
    play(service, "fine")
    quotes_nobody(page(service, f"{COMPARE}?a=b&b=b"))
    keeps_to_its_origin(service, f"{COMPARE}?a=b&b=b")


def test_its_words_are_in_the_glossary(service: Service) -> None:
    play(service, "won", reward=1.0, task="t", repeat=0)
    play(service, "dead", DEAD, task="u")
    at = f"{COMPARE}?a=b&b=b"
    assert asked_about(service, at) >= {"score", "measured"}
    assert headed_words(service, at) >= {"score", "measured"}


def test_its_table_has_the_controls_of_every_table(service: Service) -> None:
    play(service, "won", reward=1.0, task="t")
    play(service, "dead", DEAD, task="u", batch="other")
    has_the_same_controls(service, f"{COMPARE}?a=b&b=other&change=broken&sort=task", 2)


def test_its_columns_are_as_chosen(service: Service) -> None:
    chosen, others = ("difference",), ("Change", "A")
    columns_are_as_chosen(service, f"{COMPARE}?a=b&b=b", chosen, others, "task,difference")


@pytest.mark.parametrize(
    ("value", "interval", "reach", "certain"),
    [
        (0.05, (-0.01, 0.09), 0.1, False),
        (-0.3, (-0.45, -0.1), 0.5, True),
        (3.0, (2.0, 4.0), 4.0, True),
        (0.0, (-0.02, 0.02), 0.1, False),
    ],
)
def test_a_difference_stands_around_zero(
    value: float, interval: tuple[float, float], reach: float, certain: bool
) -> None:
    drawn = difference(value, interval)
    assert drawn is not None
    assert (drawn.reach, drawn.certain) == (reach, certain)
    assert 0 <= drawn.low <= drawn.at <= drawn.high <= 100
    assert drawn.at == pytest.approx(50 + 50 * value / reach, abs=0.01)


def test_without_an_interval_no_difference_is_drawn() -> None:
    assert difference(None, None) is None
    assert difference(0.5, None) is None


def test_a_batchs_page_says_what_the_run_before_came_to(service: Service) -> None:
    for night, reward in ((21, 1.0), (22, 0.0)):
        for n in range(4):
            name, batch = f"n{night}-{n}", f"n-2026-11-{night}"
            play(service, name, batch=batch, task=f"t{n}", reward=reward)
    assert "The run before" not in words(page(service, "/ui/batches/n-2026-11-21"))
    html = page(service, "/ui/batches/n-2026-11-22")
    assert "scored 1.000: this one scores lower, -1.000 over 4 tasks." in words(html)
    assert 'href="/ui/compare?a=n-2026-11-21&amp;b=n-2026-11-22"' in html
    service.http.post("/rollouts", json={"id": "runs", "batch": "n-2026-11-22", "task": "more"})
    assert "The run before" not in words(page(service, "/ui/batches/n-2026-11-22"))
