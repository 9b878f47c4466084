"""The dashboard over HTTP: what its pages say, what they never say, and whom they let in."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from html import unescape
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from classifier.records import Ending
from proxy.features.budgets.store import Budgets
from proxy.plane import planes
from proxy.store.database import Database
from proxy.store.tables import CommitBatch
from proxy.web import batch_pages
from tests.builders import limit_reached
from tests.fakes import answers, replies
from tests.fakes.answers import Api, Fault
from tests.proxy.api.test_routes import ASK, CHAT, Service, problem
from tests.proxy.conftest import Services
from tests.proxy.store.records import BARE

DEAD = answers.FAILURES[Api.CHAT][Fault.AUTH]
LIMITED = answers.FAILURES[Api.CHAT][Fault.RATE_LIMIT]
HALF = replies.Reply(
    model="gpt-5", input_tokens=9, output_tokens=2, text=("half",), finish=replies.Finish.ABORT
)
ABORTED = replies.answer(Api.CHAT, HALF, streams=False)
TOKEN = "t0ken-of-the-operator"
BROWSER = {"accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
PROMPT, KEY = "what nobody may read", "sk-what-nobody-may-see"
RUNNERS = "<b>what the runner says</b>"


@pytest.fixture
def service(on_both: Callable[..., Service]) -> Service:
    return on_both(BREAKER_THRESHOLD="2")


@pytest.fixture
def guarded(services: Services) -> Service:
    return services(ADMIN_TOKEN=TOKEN)


def play(service: Service, name: str, answer: object = None, **facts: Any) -> None:
    """One rollout as a runner drives it."""
    reward = facts.pop("reward", 0.0)
    registration = {"batch": "b", "model": "gpt-5", "upstream": "openai", **facts}
    service.http.post("/rollouts", json={"id": name, **registration})
    service.provider.plays(answer or answers.chat())  # type: ignore[arg-type]
    asked = {"model": "gpt-5", "messages": [{"role": "user", "content": PROMPT}]}
    headers = {"authorization": f"Bearer {KEY}"}
    service.http.post(f"/r/{name}/openai{CHAT}", json=asked, headers=headers)
    seen = {
        "status": "success", "prompts_executed": 1, "rewards": {"reward": reward},
        "error": RUNNERS, "eval": {"said": RUNNERS},
    }  # fmt: skip
    service.http.post(f"/rollouts/{name}/outcome", json=seen)


def register(service: Service, *made: dict[str, Any]) -> None:
    """Register all at once, the first one first."""
    service.http.post("/rollouts/bulk", json={"rollouts": made}).raise_for_status()


def page(service: Service, path: str, status: int = 200, **query: Any) -> str:
    answer = service.http.get(path, params=query or None, headers=BROWSER)
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    return answer.text


def words(html: str) -> str:
    """A page's text as one line."""
    return " ".join(re.sub(r"<[^>]*>", " ", html).split())


TABS = [
    each.name for each in (*batch_pages.TABS, *(tab for plane in planes() for tab in plane.tabs))
]
PAGES = (
    "/",
    *(f"/ui/batches/b?tab={tab}" for tab in TABS),
    "/ui/rollouts", "/ui/rollouts/dead", "/ui/upstreams", "/ui/find",
)  # fmt: skip


# --- what they say ------------------------------------------------------------


def test_a_newcomer_is_told_the_one_line_of_the_first_call(service: Service) -> None:
    said = words(page(service, "/"))
    base = str(service.http.base_url).rstrip("/")
    assert "No calls yet" in said
    assert f"curl {base}/r/my-first-rollout/openai/v1/chat/completions" in said


def test_calls_without_a_name_and_refusals_are_told_with_what_to_do(service: Service) -> None:
    assert "named no rollout" not in page(service, "/")
    service.http.post("/openai/v1/chat/completions", json={})
    for _ in range(2):
        service.http.post("/nowhere-at-all/x")  # nobody's plane: REST answers it
        service.http.post("/r/r1/nowhere/v1/x")
    said = words(page(service, "/"))
    base = str(service.http.base_url).rstrip("/")
    assert "1 call within the last hour named no rollout" in said
    assert f"{base}/r/NAME/openai/v1" in said
    assert "No rollouts yet" in said
    refused = re.search(r"Calls refused since the service started.*?: (.*?) (?:No|$)", said)
    assert refused is not None
    assert re.search(r"\b\d+ unknown_upstream\b", refused[1])
    assert "not_found" not in refused[1]


def test_the_first_call_is_found_though_it_names_no_batch(service: Service) -> None:
    service.call("my-first-rollout")
    assert "1 rollout without a batch" in words(page(service, "/"))
    assert "my-first-rollout" in page(service, "/ui/rollouts", batch="-")


def test_a_batch_shows_causes(service: Service) -> None:
    for name in ("dead", "dead-2"):
        play(service, name, DEAD)
    play(service, "slow", LIMITED, upstream=None, model=None)
    html = page(service, "/ui/batches/b")
    assert "auth:401" in words(html)
    assert "2 auth, 1 rate limit" in html


def test_a_skipped_rollout_reads_so_on_every_page(service: Service) -> None:
    for name in ("dead", "dead-2"):
        play(service, name, DEAD)
    service.http.post("/rollouts", json={"id": "held", "batch": "b"})
    why = (
        "breaker open on auth:401 after 2 rollouts in a row; fix the cause, then truezero breaker "
        "reset b"
    )
    assert f"does not count: {why}" in words(page(service, "/ui/rollouts/held"))
    assert f" held none skipped {why} " in words(page(service, "/ui/batches/b?tab=rollouts"))
    assert f" held b none skipped {why} " in words(page(service, "/ui/rollouts"))
    for path in ("/ui/rollouts", "/ui/rollouts/held"):
        shown = re.sub(r'(?s)<form method="get".*?</form>', "", page(service, path))
        assert "not judged" not in words(shown)
    for path in ("/ui/rollouts/held", "/ui/batches/b"):
        assert "No prompt was executed" not in words(page(service, path))


def test_a_rollout_shows_its_verdict_facts_and_calls(service: Service) -> None:
    play(service, "dead", DEAD)
    said = words(page(service, "/ui/rollouts/dead"))
    assert "does not count: the key was refused (auth, 401 on 1 of 1 call)" in said
    assert "Rule all_failed" in said
    assert "Reward 0 null kept as reported, not a measurement" in said
    assert "401 invalid_api_key proof" in said
    assert "truezero verdict dead" in said


def test_a_spoilt_measurement_is_said_on_every_page_that_shows_it(service: Service) -> None:
    play(service, "fine")
    play(service, "cut", ABORTED, task="task-7")
    shown = words(page(service, "/ui/rollouts/cut"))
    assert "does not count: the engine aborted 1 of 1 answer" in shown
    assert "invalid: engine aborted" in shown, "its call is marked"
    assert "Does its score count? no engine aborted" in shown
    assert 'href="#call-1"' in page(service, "/ui/rollouts/cut")
    batch = page(service, "/ui/batches/b")
    assert "1 without a score" in words(batch)
    for value in ("invalid", "engine_aborted"):
        assert f'href="?tab=rollouts&amp;validity={value}"' in batch
        assert listed(page(service, "/ui/batches/b", validity=value)) == ["cut"]
        assert listed(page(service, "/ui/rollouts", validity=value)) == ["cut"]
    assert listed(page(service, "/ui/rollouts", validity="suspect")) == []
    told = "score left out invalid: engine aborted"
    assert told in words(page(service, "/ui/rollouts", validity="invalid"))
    page(service, "/ui/rollouts", status=422, validity="nonsense")
    assert "1 measured, 1 engine aborted" in page(service, "/")


def test_what_differs_between_rollouts_is_on_the_batchs_page(service: Service) -> None:
    play(service, "usual")
    play(service, "other", answers.chat("gpt-4o"))
    shown = page(service, "/ui/batches/b")
    assert "suspect gpt-5 was asked for; gpt-4o and gpt-5 answered" in words(shown)
    between = shown.partition('id="validity"')[2]
    assert 'href="/ui/rollouts/other"' in between


def test_pages_show_what_is_spent_of_a_limit(service: Service) -> None:
    asked = {"id": "r1", "batch": "b", "limits": {"calls": 1, "tokens": 5000},
             "batch_limits": {"cost_usd": 2.5}}  # fmt: skip
    base = service.http.post("/rollouts", json=asked).json()["base_urls"]["openai"]
    for _ in range(2):
        service.http.post(f"{base}/chat/completions", json=ASK)
    text = words(page(service, "/ui/rollouts/r1"))
    assert "1 of 1 call" in text
    assert "of 5,000 tokens" in text
    assert "of $2.50" in words(page(service, "/ui/batches/b", tab="cost"))
    assert "Limits" not in words(page(service, "/ui/batches/none", 404))


@pytest.mark.postgres_smoke
def test_a_batchs_page_shows_what_its_calls_waited_if_they_did(service: Service) -> None:
    play(service, "r1")
    assert "Time waiting" not in words(page(service, "/ui/batches/b", tab="cost"))
    service.http.post("/rollouts", json={"id": "r2", "batch": "b"})
    began = time.time()
    with closing(Database(service.database)) as database:
        at = time.time()
        refused = replace(limit_reached("rollout"), at=at, held_s=at - began)
        Budgets(database.connections).refused("r2", refused)
    service.http.post("/rollouts/r2/outcome", json={"status": "success"})
    for text in (page(service, "/ui/batches/b", tab="cost"), page(service, "/ui/rollouts/r2")):
        assert "waiting at the proxy" in words(text)
    listed = words(page(service, "/ui/rollouts", columns="held_s,asked", sort="id"))
    assert re.search(r"r2 \d\.\d\d s nothing r1 none nothing", listed)
    file = service.http.get("/ui/rollouts?columns=held_s,asked&sort=id&order=asc&file=csv").text
    held = service.get("/rollouts/r2/verdict")["held_s"]
    assert file.split() == ["id,held_s", "r1,", f"r2,{held}"]
    assert service.get("/batches/b")["held_s"] == service.get("/rollouts/r2/verdict")["held_s"]


def test_an_undecided_page_calls_nothing_evidence(service: Service) -> None:
    play(service, "r")
    assert "Proof: call 1" in words(page(service, "/ui/rollouts/r"))
    service.http.post("/rollouts", json={"id": "gone", "batch": "b"})
    lost = replace(BARE, id="lost", rollout_id="gone", ending=Ending.LOST)
    with closing(Database(service.database)) as database:
        database.calls.write(CommitBatch(recorded=[lost]), worker="dead")
    shown = words(page(service, "/ui/rollouts/gone"))
    told = "not known yet if it counts: evidence is missing (calls were in flight when"
    assert told in shown
    assert "Calls without a known end: call 1" in shown
    assert "Proof:" not in shown
    assert "lost proof" not in shown


def test_a_page_links_the_calls_that_prove_that_the_model_answered(service: Service) -> None:
    service.provider.plays(DEAD, answers.chat_tools(), answers.whole({}), answers.chat())
    for turn in range(4):
        asked = {"model": "gpt-5", "messages": [{"role": "user", "content": str(turn)}]}
        service.http.post(f"/r/long/openai{CHAT}", json=asked)
    service.http.post("/rollouts/long/outcome", json={"status": "success", "prompts_executed": 1})
    shown = page(service, "/ui/rollouts/long")
    said = shown.partition("Proof: ")[2].partition("</h3>")[0]
    assert re.findall(r"#call-(\d+)", said) == ["2", "4"]


def test_a_page_says_what_was_never_read_and_what_only_the_runner_counted(
    service: Service,
) -> None:
    play(service, "mute", answers.whole({}))
    shown = words(page(service, "/ui/rollouts/mute"))
    assert "does not count: 1 of 1 call came back with HTTP success and neither" in shown
    assert "Proof: call 1 " in shown, "of what the sentence says"
    told = {"status": "success", "prompts_executed": 1, "total_tokens": 90, "batch": "b"}
    service.http.post("/rollouts/elsewhere/outcome", json=told)
    shown = words(page(service, "/ui/rollouts/elsewhere"))
    assert "Proof: only the runner counted tokens or tool calls." in shown


def test_a_rollout_that_never_called_has_a_page(service: Service) -> None:
    service.http.post("/rollouts", json={"id": "silent"})
    assert "No calls yet" in words(page(service, "/ui/rollouts/silent"))


def test_names_with_slashes_have_pages(service: Service) -> None:
    service.http.post("/rollouts", json={"id": "a/b c", "batch": "x/y"})
    listed_there = page(service, "/ui/batches/x%2Fy", tab="rollouts")
    assert 'href="/ui/rollouts/a%2Fb%20c?batch=x/y' in listed_there
    assert '<h1 class="id">a/b c</h1>' in page(service, "/ui/rollouts/a%2Fb%20c")


# --- lists ------------------------------------------------------------


def listed(html: str) -> list[str]:
    return re.findall(
        r'<a class="id(?: clip)?" href="/ui/rollouts/([^"?]+)', html.split('id="list"')[1]
    )


def test_long_lists_go_on_after_the_last_rollout(service: Service) -> None:
    register(service, *({"id": f"r{n:03d}", "batch": "b"} for n in range(103)))
    first = page(service, "/ui/batches/b", text="r")
    assert listed(first) == [f"r{n:03d}" for n in range(102, 2, -1)]
    assert "100 rollouts on this page" in words(first)
    onward = re.search(
        r'rel="next" href="(\?tab=rollouts&amp;text=r&amp;after=[^"#]+)#list"', first
    )
    assert onward is not None
    second = page(service, f"/ui/batches/b{unescape(onward[1])}")
    assert listed(second) == ["r002", "r001", "r000"]
    assert 'href="?tab=rollouts&amp;text=r#list">First' in second
    assert 'rel="next"' not in second


# --- what they never say or do ------------------------------------------------------------


def test_no_page_shows_a_prompt_or_a_key_and_only_a_rollouts_own_its_runners_words(
    service: Service,
) -> None:
    play(service, "dead", DEAD)
    play(service, "fine")
    for path in PAGES:
        quotes_nobody(page(service, path), but_runner=path == "/ui/rollouts/dead")


def quotes_nobody(html: str, *, but_runner: bool = False) -> None:
    """A page has no prompt and no key; the words of a runner, if any, are text."""
    assert PROMPT not in html
    assert KEY not in html
    assert "Incorrect API key" not in html
    assert RUNNERS not in html, "its markup would be ours"
    assert ("what the runner says" in html) == but_runner


def test_markup_in_a_name_stays_text(service: Service) -> None:
    evil = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>"
    service.http.post("/rollouts", json={"id": evil, "batch": evil, "task": evil, "model": evil})
    name = quote(evil, safe="")
    for path in ("/", "/ui/rollouts", f"/ui/batches/{name}", f"/ui/rollouts/{name}"):
        html = page(service, path)
        assert "&lt;script&gt;alert(1)" in html
        assert "<script>alert" not in html
        assert "<img src=x" not in html
    assert "<script>" not in page(service, "/ui/rollouts", q=evil)


def test_what_is_not_there_is_a_page_too(service: Service) -> None:
    assert (
        "batch &#39;nobodys&#39; does not exist"
        in page(service, "/ui/batches/nobodys", 404).lower()
    )
    assert (
        "rollout &#39;nobody&#39; does not exist"
        in page(service, "/ui/rollouts/nobody", 404).lower()
    )
    nowhere = page(service, "/ui/nowhere", 404)
    assert "no such page" in nowhere.lower()
    for html in (nowhere, page(service, "/ui/batches/nobody", 404)):
        assert '<nav aria-label="Pages">' in html, "the way on"
        assert 'id="live"' not in html
    assert "Invalid query parameter" in page(service, "/", 422, page="x")
    assert "Health: must be &#39;healthy&#39;, " in page(
        service, "/ui/rollouts", 422, health="fine"
    )


# --- whom they let in ------------------------------------------------------------


def sign_in(service: Service, token: str = TOKEN, **headers: str) -> httpx.Response:
    own = {"sec-fetch-site": "same-origin", **headers}
    return service.http.post("/ui/sign-in", data={"token": token, "next": "/"}, headers=own)


def cookie(answer: httpx.Response) -> str:
    return answer.headers["set-cookie"].partition(";")[0]


def test_a_person_is_sent_to_sign_in_and_back(guarded: Service) -> None:
    answer = guarded.http.get("/ui/batches/a%2Fb?q=x", headers=BROWSER)
    assert answer.status_code == 303
    assert answer.headers["location"] == "/ui/sign-in?next=/ui/batches/a%252Fb%3Fq%3Dx"
    form = page(guarded, answer.headers["location"])
    assert 'name="next" value="/ui/batches/a%2Fb?q=x"' in form


def test_signing_in_opens_pages_by_a_cookie_that_is_not_the_token(guarded: Service) -> None:
    answer = sign_in(guarded)
    assert (answer.status_code, answer.headers["location"]) == (303, "/")
    kept = answer.headers["set-cookie"]
    assert TOKEN not in kept
    assert "httponly" in kept.lower()
    assert "samesite=strict" in kept.lower()
    assert "secure" not in kept.lower(), "over plain HTTP it would never come back"
    for path in ("/", "/ui/rollouts"):
        assert guarded.http.get(path, headers=BROWSER).status_code == 200


def test_over_https_the_cookie_is_secure(guarded: Service) -> None:
    for headers in ({"x-forwarded-proto": "https"}, {"origin": "https://tz.example"}):
        assert "secure" in sign_in(guarded, **headers).headers["set-cookie"].lower()


def test_rest_never_looks_at_the_cookie(guarded: Service) -> None:
    sign_in(guarded)
    assert guarded.http.cookies
    for path in ("/rollouts", "/batches/b", "/batches/b/events", "/metrics"):
        problem(guarded.http.get(path, headers=BROWSER), 401, "unauthorized")
    problem(guarded.http.post("/rollouts", json={}), 401, "unauthorized")


def test_a_wrong_token_or_a_forged_session_opens_nothing(guarded: Service) -> None:
    for token in ("wrong", "", TOKEN + "x", TOKEN.upper()):
        answer = sign_in(guarded, token)
        assert answer.status_code == 403
        assert "set-cookie" not in answer.headers
        assert "Wrong admin token" in answer.text
    kept = cookie(sign_in(guarded))
    guarded.http.cookies.clear()
    for forged in (kept[:-1], kept[:-1] + ("0" if kept[-1] != "0" else "1"), "truezero_session="):
        answer = guarded.http.get("/", headers={**BROWSER, "cookie": forged})
        assert answer.status_code == 303


@pytest.mark.parametrize(
    "elsewhere", ["//evil.example", "https://evil.example/", "/\\evil.example", "", "/\r\nx: y"]
)
def test_signing_in_never_leads_to_another_origin(guarded: Service, elsewhere: str) -> None:
    own = {"sec-fetch-site": "same-origin"}
    answer = guarded.http.post("/ui/sign-in", data={"token": TOKEN, "next": elsewhere}, headers=own)
    assert answer.headers["location"] == "/"


def test_without_a_token_there_is_nothing_to_sign_in_to(service: Service) -> None:
    assert service.http.get("/ui/sign-in?next=/ui/rollouts").headers["location"] == "/ui/rollouts"
    assert "Sign out" not in page(service, "/")


def test_a_wrong_name_gets_the_near_ones(service: Service) -> None:
    for name in ("nightly/t-1", "nightly/t-2", "other"):
        play(service, name, batch="nightly-7")
    for path, near in (
        ("/ui/batches/nigthly-7", ["/ui/batches/nightly-7"]),
        (
            "/ui/rollouts/nightly%2Ft-3",
            ["/ui/rollouts/nightly%2Ft-2", "/ui/rollouts/nightly%2Ft-1"],
        ),
        ("/ui/rollouts/xyzzy", []),
        ("/ui/nowhere", []),
    ):
        html = page(service, path, 404).partition("<main")[2].partition("</main>")[0]
        assert re.findall(r'href="(/ui/[^"]+)"', html) == [*near, "/ui/find"], path
        assert "did you mean" not in html
