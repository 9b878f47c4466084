"""A batch's card over REST: its summary, which its export makes again; it quotes nobody."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from classifier.card import Roots, Stated, card_bytes, card_of, differences
from proxy.control import judge
from proxy.features.card.printed import badge
from tests.fakes import answers
from tests.fakes.answers import Api, Fault
from tests.proxy.api.test_routes import Service, problem, serving
from tests.proxy.conftest import Services
from tests.proxy.control.test_batches import CHAT, play
from tests.proxy.web.test_one_number import play_biased, printed, says_one_p
from tests.proxy.web.test_pages import BROWSER, page, words
from truezero.cli import app as command_line
from truezero.runner.card import verify

DEAD = answers.FAILURES[Api.CHAT][Fault.AUTH]
SECRET = "a sentence that no card may hold"


@pytest.fixture
def service(services: Services) -> Service:
    """One with a batch of three, to which a test may add others."""
    service = services()
    _play_three(service)
    return service


@pytest.fixture(scope="module")
def only_read(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """One with the same batch, for tests that change nothing: it is played once."""
    with serving(tmp_path_factory.mktemp("read")) as service:
        _play_three(service)
        yield service


def _play_three(service: Service) -> None:
    play(service, "won", reward=1.0, task="one")
    play(service, "lost", task="two")
    play(service, "dead", DEAD, task="three")


def exported(service: Service) -> str:
    return service.http.get("/rollouts/export", params={"batch": "b"}).text


def made_again(service: Service, card: dict[str, Any]) -> dict[str, Any]:
    """The same card, made of the batch's export; it has the export's digest as well."""
    records = [json.loads(line) for line in exported(service).splitlines()]
    return card_of(records, Stated.decode(card["stated"]))


def test_a_card_is_what_its_export_makes_of_it(only_read: Service) -> None:
    response = only_read.http.get("/batches/b/card", params={"harness": "benchflow 1"})
    card = response.json()
    assert response.content == card_bytes(card), "canonical"
    assert card["roots"] == Roots().encode(), "no export was read"
    again = made_again(only_read, card)
    assert again["roots"]["request_ids"] is not None
    assert differences(card, {**again, "roots": card["roots"]}) == []
    assert card["stated"]["harness"] == "benchflow 1"
    assert list(card["stated"]["origins"]) == ["openai"], "others were not called"


def test_a_call_after_the_outcome_changes_neither_page_nor_card_nor_export(
    on_both: Callable[..., Service], tmp_path: Path
) -> None:
    """Late calls failed within the time in which a call that ended before may be recorded."""
    service = on_both()
    play(service, "won", reward=1.0, task="one")
    before = service.http.get("/batches/b/card").content
    for _ in range(2):
        service.provider.plays(DEAD)
        late = service.http.post(f"/r/won/openai{CHAT}", json={"model": "gpt-5", "messages": []})
        assert late.status_code == 401
    assert service.get("/rollouts/won/verdict")["late_calls"] == 2
    assert service.get("/batches/b")["score_effective"] == 1.0
    card = service.get("/batches/b/card")
    assert service.http.get("/batches/b/card").content == before
    assert card["measured"]["score"]["score"] == 1.0
    assert "1 of 1 planned repeat measured ( 100% )" in words(page(service, "/ui/batches/b"))
    (tmp_path / "export.jsonl").write_text(exported(service))
    assert verify(card, tmp_path / "export.jsonl").differences == ()


def test_a_card_counts_the_zeros_that_are_none(only_read: Service) -> None:
    measured = only_read.get("/batches/b/card")["measured"]
    assert measured["zeros"] == {
        "reported": 2, "not_measured": 1, "by_cause": {"auth": 1},
    }  # fmt: skip
    assert (measured["score"]["measured"], measured["score"]["repeats"]) == (2, 3)
    assert (measured["score"]["score"], measured["valid"]) == (0.5, False)
    assert (measured["calls"]["total"], measured["rollouts"]) == (2, 3)


def test_registered_models_stand_beside_those_that_answered(only_read: Service) -> None:
    models = only_read.get("/batches/b/card")["measured"]["models"]
    assert models["registered"] == [{"model": "gpt-5", "fallbacks": [], "rollouts": 3}]
    (answered,) = models["answered"]
    assert (answered["asked"], answered["answered"], answered["rollouts"]) == ("gpt-5", "gpt-5", 2)
    assert answered["origin"] == only_read.get("/batches/b/card")["stated"]["origins"]["openai"]
    assert "registered gpt-5: 3 rollouts" in run("b", "--url", only_read.http.base_url).stdout


def test_a_share_is_of_the_two_numbers_beside_it(services: Services) -> None:
    """One rollout is scoreable, and has no reward: it is covered and not measured."""
    service = services()
    _play_three(service)
    service.http.post("/rollouts", json={"id": "bare", "batch": "b", "task": "four"})
    service.provider.plays(answers.chat())
    service.http.post(f"/r/bare/openai{CHAT}", json={"model": "gpt-5", "messages": []})
    service.http.post("/rollouts/bare/outcome", json={"status": "success", "prompts_executed": 1})
    summary = service.get("/batches/b")
    assert (summary["scored"], summary["scoreable"], summary["total"]) == (2, 3, 4)
    share = "2 of 4 measured (50%)"
    html = service.http.get("/batches/b/card", headers={"accept": "text/html"}).text
    answer = service.http.get("/batches/b/card", headers={"accept": "image/svg+xml"})
    at = ("--url", str(service.http.base_url))
    batch = CliRunner().invoke(command_line, ["batch", "b", *at]).stdout
    overview = words(page(service, "/ui/batches/b"))
    assert "2 of 4 planned repeats measured ( 50% )" in overview
    assert answer.headers["content-type"] == "image/svg+xml"
    for shown in (words(html), answer.text, run("b", *at).stdout, " ".join(batch.split())):
        assert share in shown
        assert not re.search(r"2 of 4 \w+ \((?!50%)", shown)


def test_a_card_is_printed_as_a_page_that_stands_alone(only_read: Service) -> None:
    response = only_read.http.get("/batches/b/card", headers={"accept": "text/html"})
    page = response.text
    assert response.headers["content-type"].startswith("text/html")
    assert "2 of 3 measured" in page
    assert "1 of 2 reported zeros is not a measurement" in page
    assert not [tag for tag in ("<script", "<link", "<img", "src=") if tag in page]
    assert "sha256-" in response.headers["content-security-policy"]
    shown = only_read.http.get("/ui/batches/b/card")
    assert (shown.status_code, shown.text) == (200, page)
    overview = only_read.http.get("/ui/batches/b", headers=BROWSER).text
    assert '<a href="/ui/batches/b/card">Measurement card</a>' in overview


@pytest.mark.slow
def test_what_is_excluded_has_one_p(services: Services) -> None:
    service = services(BREAKER_THRESHOLD="50")
    play_biased(service)
    html = service.http.get("/batches/p/card", headers={"accept": "text/html"}).text
    says_one_p(words(html), "page")
    says_one_p(printed(service, "card", "p"), "command")


@pytest.mark.parametrize(
    ("score", "valid", "text", "colour"),
    [
        (0.6341, True, "0.634, 41 of 60 measured (68.3%)", "#00634a"),
        (None, False, "no score, 41 of 60 measured (68.3%)", "#a33800"),
    ],
)
def test_a_badge_speaks_and_shows_by_its_colour_if_the_batch_is_valid(
    score: float | None, valid: bool, text: str, colour: str
) -> None:
    counts = {"score": score, "measured": 41, "repeats": 60, "own_failures": 0}
    shown = badge({"measured": {"score": counts, "valid": valid}})
    assert f'aria-label="truezero: {text}"' in shown
    assert f">{text}</text>" in shown
    assert f'fill="{colour}"' in shown


def test_a_name_that_looks_like_markup_stays_text(service: Service) -> None:
    play(service, "odd", batch="<script>alert(1)</script>", model="<b>m</b>")
    path = "/batches/%3Cscript%3Ealert(1)%3C%2Fscript%3E/card"
    page = service.http.get(path, headers={"accept": "text/html"}).text
    assert "<script>" not in page
    assert "<b>m" not in page


def test_no_export_is_read_for_a_card(only_read: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*arguments: Any) -> None:
        raise AssertionError(arguments)

    monkeypatch.setattr(judge, "load_some", never)
    for path in ("/batches/b/card", "/ui/batches/b/card"):
        assert only_read.http.get(path).status_code == 200


def test_a_batch_without_rollouts_has_no_card(service: Service) -> None:
    service.http.post("/rollouts", json={"id": "alone"})
    for name in ("none", "%C2%94", "-"):  # the last is a list's word for rollouts without a batch
        problem(service.http.get(f"/batches/{name}/card"), 404, "unknown_batch")


def test_what_0_2_asked_of_a_card_is_said_to_be_gone(only_read: Service) -> None:
    progress = {"accept": "text/event-stream, text/html"}
    problem(only_read.http.get("/batches/b/card", headers=progress), 410, "gone")
    disclosed = only_read.http.post("/batches/b/card/disclosure", json={"seed": "tuesday"})
    problem(disclosed, 410, "gone")


def test_nothing_that_was_said_and_no_key_is_on_a_card(service: Service) -> None:
    service.http.post("/rollouts", json={"id": "said", "batch": "b", "task": "five"})
    said = {"model": "gpt-5", "messages": [{"role": "user", "content": SECRET}]}
    key = {"authorization": f"Bearer sk-{SECRET.replace(' ', '-')}"}
    service.provider.plays(answers.chat())
    service.http.post("/r/said/openai/v1/chat/completions", json=said, headers=key)
    seen = {"status": "success", "prompts_executed": 1, "rewards": {"reward": 0.0}}
    assert service.http.post("/rollouts/said/outcome", json=seen).status_code == 200
    page = service.http.get("/batches/b/card", headers={"accept": "text/html"}).text
    for text in (service.http.get("/batches/b/card").text, page):
        assert "no card may hold" not in text
        assert "no-card-may-hold" not in text


# --- on the command line -------------------------------------------------------------------------


def run(*words: object) -> Result:
    return CliRunner().invoke(command_line, ["card", *(str(word) for word in words)])


@pytest.fixture
def files(only_read: Service, tmp_path: Path) -> Path:
    (tmp_path / "export.jsonl").write_text(exported(only_read))
    words = ("--json", tmp_path / "card.json", "--html", tmp_path / "c.html")
    made = run("b", *words, "--url", only_read.http.base_url)
    assert (made.exit_code, made.stdout) == (0, ""), made.output
    assert "Measurement card" in (tmp_path / "c.html").read_text()
    return tmp_path


def test_a_card_is_printed_in_a_terminal(only_read: Service) -> None:
    shown = run("b", "--url", str(only_read.http.base_url))
    assert shown.exit_code == 0, shown.output
    lines = shown.stdout.splitlines()
    assert lines[0].startswith("b: score 0.500")
    assert "1 of 2 reported zeros is not a measurement: 1 auth" in lines
    assert [line for line in lines if line.startswith("answered gpt-5 (")]
    assert [line for line in lines if line.startswith("does not prove ")]


def test_a_batch_that_is_none_is_one_sentence(only_read: Service) -> None:
    shown = run("none", "--url", only_read.http.base_url)
    assert (shown.exit_code, shown.stderr) == (1, "truezero: batch 'none' does not exist\n")


def test_a_card_is_verified_offline_by_its_export(files: Path) -> None:
    words = ("verify", files / "card.json", "--export", files / "export.jsonl")
    verified = run(*words)
    assert (verified.exit_code, verified.stdout, verified.stderr) == (0, "export: holds\n", "")
    as_json = run(*words, "--json")
    assert (as_json.exit_code, json.loads(as_json.stdout)) == (0, {"export": []})


def test_a_signature_is_said_not_to_be_checked(files: Path) -> None:
    words = ("verify", files / "card.json", "--export", files / "export.jsonl")
    verified = run(*words, "--key", files / "key.pub")
    assert (verified.exit_code, verified.stdout) == (0, "export: holds\n")
    assert verified.stderr.startswith("warning: --key is gone, and has no effect: signatures are")


def test_a_score_that_was_edited_is_named_and_the_exit_code_is_1(files: Path) -> None:
    card = json.loads((files / "card.json").read_text())
    card["measured"]["score"]["score"] = 0.9
    (files / "card.json").write_text(json.dumps(card))
    export = files / "export.jsonl"
    verified = run("verify", files / "card.json", "--export", export)
    assert verified.exit_code == 1
    assert "measured.score.score: 0.9 on the card, 0.5 by the export" in verified.stdout
    export.write_text(export.read_text().replace('"reward":0.0', '"reward":1.0'))
    verified = run("verify", files / "card.json", "--export", export)
    assert (verified.exit_code, "roots.export" in verified.stdout) == (1, True)


def test_what_cannot_be_verified_is_said_with_exit_code_2(files: Path) -> None:
    assert run("verify", files / "card.json").exit_code == 2
    (files / "none.json").write_text("[]")
    assert run("verify", files / "none.json", "--export", files / "export.jsonl").exit_code == 2
    missing = run("verify", files / "missing.json", "--export", files / "export.jsonl")
    assert missing.exit_code == 2
    assert "cannot read" in missing.output


def test_unknown_tokens_and_cost_are_counted_in_calls_as_the_cost_tab_counts_them(
    services: Services,
) -> None:
    service = services()
    _play_three(service)  # one of them made no call that used tokens
    silent = answers.whole({"choices": [{"message": {"content": "so"}}]})
    service.http.post("/rollouts", json={"id": "left", "batch": "b", "task": "four"})
    for answer in (answers.chat(), *[silent] * 4):
        service.provider.plays(answer)
        service.http.post(f"/r/left/openai{CHAT}", json={"model": "gpt-5", "messages": []})
    service.http.post(
        "/rollouts/left/outcome", json={"status": "success", "rewards": {"reward": 0}}
    )
    measured = service.get("/batches/b/card")["measured"]
    whole, summary = service.get("/batches/b/usage")["sum"], service.get("/batches/b")
    verdict = service.get("/rollouts/left/verdict")
    unknown = {name: n for name, n in measured["tokens"].items() if name.endswith("_unknown")}
    assert set(unknown.values()) == {4}
    assert measured["cost"]["cost_usd_unknown"] == 4
    assert (verdict["tokens_unknown_calls"], verdict["cost_unknown_calls"]) == (4, 4)
    assert whole["billable_calls"] - whole["cost_known_calls"] == 4
    assert summary["calls"] - summary["cost_known_calls"] == 4
    costs = (measured["cost"]["cost_usd"], summary["cost_usd"], whole["cost_usd"])
    assert costs == pytest.approx((whole["cost_usd"],) * 3, abs=1e-6)
    tokens = (measured["tokens"]["total_tokens"], summary["total_tokens"], whole["total_tokens"])
    assert len({*tokens}) == 1
    pages = (page(service, "/ui/batches/b/card"), page(service, "/ui/batches/b?tab=cost"),
             page(service, "/ui/batches/b"), page(service, "/ui/rollouts/left"))  # fmt: skip
    assert re.search(r"Tokens: at least \d+; 4 of 7 calls did not say", words(pages[0]))
    assert re.search(r"Cost: at least \S+; 4 of 7 calls without a known price", words(pages[0]))
    for shown in pages[1:]:
        assert "at least $" in words(shown).lower()
    for shown in (pages[1], pages[3]):
        assert re.search(r"4 of \d calls without a known price", words(shown))
    assert "4 of 5 calls did not say" in words(pages[3]), "tokens"
