"""The page of upstreams says since when one fails, and never caps its counts in silence."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest

from proxy.features.pace.shares import PaceDemand, PaceShares
from proxy.store.database import Database
from proxy.web.format import local
from proxy.web.upstream_pages import LANES
from tests.proxy.api.test_routes import Service
from tests.proxy.control.test_upstreams import DOWN, NOW, recorded_call, write
from tests.proxy.store.records import FULL
from tests.proxy.web.test_pages import page, words


@pytest.fixture
def service(on_both: Callable[..., Service]) -> Service:
    return on_both()


def shown(service: Service, monkeypatch: pytest.MonkeyPatch, **query: Any) -> str:
    assert service.app is not None
    state = service.app.control_plane().app.state._state  # noqa: SLF001  Starlette's state has no public way to put one back
    control = replace(state["service"], now=lambda: NOW)
    monkeypatch.setitem(state, "pages", replace(state["pages"], service=control))
    return page(service, "/ui/upstreams", **query)


QUOTA = replace(DOWN, status=402, cause=FULL.cause)


def test_a_failing_upstream_says_since_when(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    answered = [recorded_call(n, ago_s=3000 + n) for n in range(9)]
    failed = [
        recorded_call(100 + n, ago_s=2760 - n, like=QUOTA, rollout_id=f"r{n}") for n in range(5)
    ]
    write(service, *answered, *failed)
    said = words(shown(service, monkeypatch, window=3600))
    row = r"gpt-5 key-0+ down 07:14:\d\d , for 46 min .*5 of "
    assert re.search(row + "14 operator", said), said
    assert "quota 5 all calls 14" in said
    assert "All 14 calls" in said
    assert "the 14 calls that asked a model" in said
    short = words(shown(service, monkeypatch, window=60))
    assert re.search(row, short), "an outage stays whatever the time that is looked at"
    assert "Calls and first byte" not in short


@pytest.mark.postgres_smoke
def test_calls_that_wait_for_their_turn_are_shown_with_their_upstream(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(service, *(recorded_call(n, ago_s=30 + n) for n in range(3)))
    with closing(Database(service.database)) as database:
        demands = {("openai", "gpt-5", "key-00000000"): PaceDemand(3, waiting=3, longest_s=2.5)}
        PaceShares(database.connections).renew("w", demands, now=NOW - 1)
    said = words(shown(service, monkeypatch))
    assert "Waiting for pace" in said
    assert "3, longest 2.50 s" in said
    with closing(Database(service.database)) as database:
        PaceShares(database.connections).give_back("w")
    assert "Waiting for pace" not in words(shown(service, monkeypatch))


def test_an_outage_stays_until_an_answer_ends_it(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    answered = [recorded_call(n, ago_s=9000 + n) for n in range(9)]
    failed = [
        recorded_call(100 + n, ago_s=8000 - n, like=QUOTA, rollout_id=f"r{n}") for n in range(5)
    ]
    write(service, *answered, *failed)
    for window in (900, 3600):
        said = words(shown(service, monkeypatch, window=window))
        assert re.search(r"gpt-5 key-0+ down \d\d:\d\d:\d\d , for 2 h ", said), (window, said)
        assert "5 of 5 operator" in said, window
    write(service, *(recorded_call(200 + n, ago_s=5000 - n) for n in range(9)))
    assert " down " not in words(shown(service, monkeypatch, window=900))


@pytest.mark.postgres_smoke
def test_a_chosen_time_shows_the_calls_in_it_and_leads_to_what_failed(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(service, *(recorded_call(n, ago_s=600 * n, like=FULL) for n in range(1, 9)))
    since, until = local(NOW - 3600), local(NOW - 1800)
    html = shown(service, monkeypatch, since=since, until=until)
    said = words(html)
    assert "All 3 calls" in said
    assert " down " not in said, "that is not now"
    steps = {*re.findall(r'data-step="(\d+)" data-steps="(\d+)"', html)}
    assert [int(step) * int(count) for step, count in steps] == [1800]
    link = re.search(r'href="(/ui/rollouts\?upstream=[^"]+failed_until=[^"]+)"', html)
    assert link is not None
    assert FULL.rollout_id in page(service, link[1].replace("&amp;", "&"))
    assert "No calls in this time" in words(
        shown(service, monkeypatch, since=local(NOW - 60), until=local(NOW))
    )


def test_many_models_are_counted_where_they_are_not_listed(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"model-{n:03d}" for n in range(200)]
    write(service, *(recorded_call(n, ago_s=10 + n, model=name) for n, name in enumerate(names)))
    html = shown(service, monkeypatch, window=3600)
    assert f"200 keys and models, the first {LANES}" in html
    assert html.count('data-key="lane ') == LANES
    found = shown(service, monkeypatch, window=3600, text="MODEL-142")
    assert re.findall(r'data-key="lane ([^"]+)"', found) == ["openai · model-142 · key-00000000"]
    assert len(html) < 250_000


@pytest.mark.postgres_smoke
def test_a_row_opens_its_chart_and_its_notes(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(service, *(recorded_call(n, ago_s=30 + n) for n in range(3)))
    html = shown(service, monkeypatch)
    link = re.search(r'<th scope="row"><a class="named" href="([^"#]+)', html)
    assert link is not None
    assert "lane-calls" not in html
    opened = page(service, "/ui/upstreams" + link[1].replace("&amp;", "&"))
    assert 'id="lane-calls"' in opened
    assert "Answers took 1.00 s / 1.00 s" in words(opened)


def test_the_view_is_sorted_filtered_and_written_as_a_file(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(
        service, *(recorded_call(n, ago_s=30 + n, model="fine") for n in range(5)),
        *(recorded_call(50 + n, ago_s=90 - n, like=QUOTA, model="spent", rollout_id=f"r{n}")
          for n in range(5)),
    )  # fmt: skip

    def rows(**query: Any) -> list[str]:
        html = shown(service, monkeypatch, **query)
        return re.findall(r'data-key="lane openai · (\w+) ', html)

    assert rows() == ["spent", "fine"], "what fails first"
    assert rows(sort="lane") == ["fine", "spent"]
    assert rows(only="failing") == ["spent"]
    assert rows(model="fine") == ["fine"]
    page(service, "/ui/upstreams", status=422, sort="nonsense")
    shown(service, monkeypatch)
    text = service.http.get("/ui/upstreams?file=csv&only=failing").text
    (told,) = csv.DictReader(text.splitlines())
    assert (told["model"], told["now"], told["whose"]) == ("spent", "failed", "operator's")
    assert told["failed"] == "5"
