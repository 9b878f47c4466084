"""The page of one rollout: its calls folded, listed and in full, and the runner's own words."""

from __future__ import annotations

import html as entities
import re
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace

import pytest

from classifier.records import Timing
from proxy.control.rollout_view import CallFilter
from proxy.store.database import Database
from proxy.store.tables import CommitBatch
from proxy.web.rollout_page import CallsView, call_fields
from tests.fakes import answers
from tests.proxy.api.test_routes import CHAT, Service
from tests.proxy.control.test_rollout_view import WHOLE
from tests.proxy.store.records import FULL
from tests.proxy.web.test_pages import BROWSER, DEAD, KEY, page, play, words

LARGEST = 170_000  # bytes of a page before it is compressed, without pictures


@pytest.fixture
def service(on_both: Callable[..., Service]) -> Service:
    return on_both()


def long(service: Service, *, failed: range, count: int = 1000) -> None:
    """Record a rollout of many calls, some of them failed."""
    dead = replace(WHOLE, status=429, cause=FULL.cause, output_seen=False)
    calls = [
        replace(
            dead if n in failed else WHOLE,
            id=f"c{n:05d}",
            timing=Timing(started_at=2.0 * n, duration_s=1.5, first_byte_s=0.5),
        )
        for n in range(count)
    ]
    with closing(Database(service.database)) as database:
        database.calls.write(CommitBatch(recorded=calls), worker="gone")


def test_identical_successes_are_one_line_that_opens(service: Service) -> None:
    long(service, failed=range(29, 299, 30), count=300)
    html = page(service, "/ui/rollouts/long")
    assert "1–299 290 answered, 9 quota and sent again" in words(html)
    assert "Failed or not ended 9" in words(html)
    assert "300 calls of the agent" in html, "the timeline"
    opened = page(service, "/ui/rollouts/long", open="1-299", at=150)
    assert 'id="call-150"' in opened
    assert "sent again" not in opened
    failed = page(service, "/ui/rollouts/long", show="failed")
    shown = [f"call-{n}" for n in range(30, 300, 30)]
    assert re.findall(r'id="(call-\d+)"', failed) == shown
    for bad in ({"show": "some"}, {"open": "all"}, {"at": 0}):
        page(service, "/ui/rollouts/long", status=422, **bad)


@pytest.mark.slow
@pytest.mark.parametrize("failed", [range(0), range(0, 1000, 2), range(1000)])
def test_a_page_of_a_thousand_calls_is_small(service: Service, failed: range) -> None:
    long(service, failed=failed)
    check_sizes(service, failed)


def test_a_page_of_300_calls_is_small(service: Service) -> None:
    every_other = range(0, 300, 2)
    long(service, failed=every_other, count=300)
    check_sizes(service, every_other)


def check_sizes(service: Service, failed: range) -> None:
    """Check that the page is small with each filter."""
    for show in CallFilter:
        size = len(page(service, "/ui/rollouts/long", show=show.value).encode())
        assert size < LARGEST, (show, failed)


def test_evidence_on_another_page_is_a_link_there(service: Service) -> None:
    long(service, failed=range(299, 300), count=300)
    html = page(service, "/ui/rollouts/long")
    assert '<a href="#call-300">300</a>' in html
    elsewhere = page(service, "/ui/rollouts/long", show="all")
    assert '<a href="?show=all&amp;at=300#call-300">300</a>' in elsewhere
    assert 'id="call-300"' in page(service, "/ui/rollouts/long", show="all", at=300)


@pytest.mark.postgres_smoke
def test_every_stored_field_of_a_call_is_in_its_drawer_and_is_json(service: Service) -> None:
    play(service, "dead", DEAD)
    html = page(service, "/ui/rollouts/dead")
    link = re.search(r'<a href="(/ui/call\?[^"]+)">JSON', html)
    assert link is not None
    answer = service.http.get(entities.unescape(link[1]), headers=BROWSER)
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["cache-control"] == "no-store"
    (stored,) = service.get("/rollouts/dead/exchanges")["items"]
    assert answer.json() == stored
    drawer = entities.unescape(words(html[html.index('class="drawer"') :]))
    fields = call_fields(stored)
    said = [each for group in fields.groups.values() for each in group]
    for label, value in said:
        assert f"{label} {value}" in drawer, label
    kept = [name for name in stored if name not in ("rollout_id", "number")]
    assert len(said) + fields.empty == len(kept), "each field has its place"
    assert len(said) == sum(stored[name] is not None for name in kept)
    assert f"{fields.empty} fields hold nothing" in drawer
    for told in ("status 401", "cause auth", "sent to openai", f"key {stored['key_digest']}"):
        assert told in drawer, told
    assert re.search(r" time [\d.]+ ms ", drawer), "three digits, with a unit"
    assert f'data-copy-from="{link[1]}"' in html
    assert KEY not in answer.text
    assert "no call" in page(service, "/ui/call", status=404, rollout="dead", id="x")


def test_what_the_runner_reported_is_shown_as_text(service: Service) -> None:
    evil = "</pre><script>alert(1)</script>"
    registered = {"id": "r", "metadata": {"seed": evil}}
    service.http.post("/rollouts", json=registered)
    service.call("r")
    seen = {
        "status": "evaluation_failed", "prompts_executed": 3, "error": f"error {evil}",
        "verifier_error": f"verifier {evil}", "export_error": "disk full", "eval": {"passed": evil},
    }  # fmt: skip
    service.http.post("/rollouts/r/outcome", json=seen)
    html = page(service, "/ui/rollouts/r")
    assert "<script>alert" not in html
    shown = entities.unescape(words(html))
    for told in (
        f"Error error {evil}", f"Verifier error verifier {evil}", "Export error disk full",
        f'Evaluation {{ "passed": "{evil}" }}', f'Metadata {{ "seed": "{evil}" }}',
        "Runner said evaluation failed, 3 prompts",
    ):  # fmt: skip
        assert told in shown, told


def test_the_proof_says_whom_a_call_asked_by_which_key(service: Service) -> None:
    play(service, "dead", DEAD)
    (stored,) = service.get("/rollouts/dead/exchanges")["items"]
    html = page(service, "/ui/rollouts/dead")
    proof = words(html[html.index('class="proof"') :].partition("</ol>")[0])
    for told in ("1 401", stored["upstream"], stored["model"], stored["key_digest"]):
        assert told in proof, told
    assert (stored["provider_request_id"] or "") in proof


def test_a_link_leads_to_a_call_that_it_opens(service: Service) -> None:
    long(service, failed=range(299, 300), count=300)
    got = service.http.get("/ui/rollouts/long?call=150", headers=BROWSER, follow_redirects=False)
    assert got.status_code == 303
    assert got.headers["location"] == "/ui/rollouts/long?show=all&at=150#call-150"
    html = page(service, "/ui/rollouts/long", show="all", at=150)
    inside = html.index("<details", html.index('data-key="call 150"'))
    assert inside < html.index('id="call-150"') < html.index("</details>", inside), (
        "browsers open the details that a fragment is in"
    )
    assert re.search(r'data-copy="http[^"]+/ui/rollouts/long\?call=150"', html)


def test_a_failed_role_shows_its_calls(service: Service) -> None:
    service.http.post("/rollouts", json={"id": "r"})
    for role, answer in (("", answers.chat()), ("as/judge/", DEAD)):
        service.provider.plays(answer)
        service.http.post(f"/r/r/{role}openai{CHAT}", json={"model": "gpt-5", "messages": []})
    html = page(service, "/ui/rollouts/r")
    assert re.search(r"judge auth 1 1 call 2 ", words(html))
    assert "Was the judge reached? auth 1 of 1 call failed" in words(html)
    assert '<a href="#call-2">2</a>' in html


def test_whose_failure_it_was_and_what_came_late_are_said(service: Service) -> None:
    play(service, "dead", DEAD)
    assert "Whose failure? the operator's" in entities.unescape(
        words(page(service, "/ui/rollouts/dead"))
    )
    play(service, "fine")
    late = replace(WHOLE, id="late", rollout_id="fine", timing=Timing(started_at=time.time() + 60))
    with closing(Database(service.database)) as database:
        database.calls.write(CommitBatch(recorded=[late]), worker="gone")
    shown = words(page(service, "/ui/rollouts/fine"))
    assert "Whose failure?" not in shown
    assert "1, 1 more after the rollout had ended" in shown


def test_a_view_writes_only_what_differs_from_the_usual() -> None:
    view = CallsView(show=CallFilter.FAILED, at=41, opened="")
    assert view.query() == "?show=failed&at=41"
    assert view.query(show="folded", at=1) == "?"
    assert view.query(open="3-9") == "?show=failed&at=41&open=3-9"
    assert CallsView(show=CallFilter.ALL, at=1, opened="3-9").range == (3, 9)
    assert view.range is None


@pytest.mark.slow
def test_a_rollout_leads_to_those_beside_it_in_its_list(service: Service) -> None:
    for n in range(4):
        play(service, f"r{n}", DEAD if n in (0, 3) else None)
    play(service, "elsewhere", DEAD, batch="other")

    def beside(path: str, query: str = "") -> dict[str, str]:
        html = page(service, path + query)
        return dict(
            re.findall(r'<a class="button" rel="(prev|next)" href="(/ui/rollouts/[^"]+)"', html)
        )

    assert beside("/ui/rollouts/r1") == {"prev": "/ui/rollouts/r2", "next": "/ui/rollouts/r0"}
    assert beside("/ui/rollouts/r3") == {"next": "/ui/rollouts/r2"}, "newest first, of its batch"
    dead = "?subcategory=auth"
    assert beside("/ui/rollouts/r3", dead) == {
        "prev": f"/ui/rollouts/elsewhere{dead}", "next": f"/ui/rollouts/r0{dead}",
    }  # fmt: skip
    html = page(service, "/ui/rollouts/r3", subcategory="auth", show="failed")
    assert 'href="?subcategory=auth#calls"' in html, "which calls are listed is apart from it"
    assert 'href="/ui/rollouts?subcategory=auth"' in html
    failed = page(service, "/ui/batches/b?tab=rollouts&subcategory=auth")
    assert 'href="/ui/rollouts/r3?batch=b&amp;subcategory=auth"' in failed
    assert beside("/ui/rollouts/r3", "?batch=b&subcategory=auth") == {
        "next": "/ui/rollouts/r0?batch=b&amp;subcategory=auth",
    }
    link = re.search(r'href="(/ui/rollouts/r0[^"]*)"', page(service, "/ui/rollouts", text="r0"))
    assert link is not None
    assert link[1] == "/ui/rollouts/r0?text=r0"
    page(service, "/ui/rollouts/r3", status=422, nonsense="x")
