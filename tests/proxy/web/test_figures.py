"""Each figure of a batch is its function of the rows, wherever it is shown, and so is its list.

A page adds itself by `data-figure`, REST, commands and files by the names of the registry.
"""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from html import unescape
from typing import Any

import pytest
from click.testing import CliRunner

from classifier.batch_summary import Named, exclusion_in, summary_of
from classifier.figures import FIGURES, CountedBatch, figures_of
from classifier.repeat_counts import part_of
from classifier.reruns import NEVER_STARTED
from proxy.features.exports import archive
from proxy.store.batch_counts import _tasks_planned, all_of
from proxy.store.batches import rewards_of
from proxy.web.figures import shown
from tests.fakes import answers
from tests.proxy import inside
from tests.proxy.api.test_routes import Service
from tests.proxy.conftest import Services
from tests.proxy.control.test_batches import ABORTED, CHAT, DEAD, DOWN
from tests.proxy.web.test_pages import TABS
from truezero.cli import app as command_line
from truezero.cli.text import score_words
from truezero.models.batches import (
    BatchItem,
    BatchParts,
    BatchSummary,
    Check,
    ComparedBatch,
    ReportedOnes,
    ReportedZeros,
)
from truezero.printable import measured_words

REJECTED = answers.whole({"error": {"message": "no such field", "code": "x"}}, status=400)
ANSWERS = (None, None, None, DEAD, DOWN, ABORTED, REJECTED)
REWARDS: tuple[dict[str, float] | None, ...] = (
    {"reward": 0.0}, {"reward": 0.0}, {"reward": 1.0}, {"reward": 0.5}, None,
)  # fmt: skip
ANY_REWARDS = (*REWARDS, {"reward": -1.5}, {"reward": 7.0}, {"style": 0.0, "safety": 1.0})


# --- one source of words -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "before"),
    [
        (BatchSummary, ""),
        (BatchItem, ""),
        (ComparedBatch, ""),
        (ReportedZeros, "zeros."),
        (ReportedOnes, "ones."),
        (BatchParts, "parts."),
        (Check, ""),
    ],
)
def test_the_models_of_rest_describe_each_figure_as_it_is_defined(model: Any, before: str) -> None:
    described = {before + name: field.description for name, field in model.model_fields.items()}
    figures = described.keys() & FIGURES.keys()
    assert len(figures) >= 2
    for name in figures:
        assert described[name] == FIGURES[name].description, name


def test_a_batchs_summary_has_every_figure_and_little_else() -> None:
    outer = {name.partition(".")[0] for name in FIGURES}
    assert BatchSummary.model_fields.keys() - outer == {
        "batch", "as_of", "outdated", "summaries", "retried_after_score", "validity_across",
        "valid", "no_score", "score_key", "retry", "exclusion_bias", "exclusion_p",
        "exclusion_fisher_p",
    }  # fmt: skip
    assert outer <= BatchSummary.model_fields.keys()


# --- random batches ----------------------------------------------------------------------------


def live(service: Service, draw: random.Random, rollouts: int) -> None:
    """Run a batch in which what can happen to a rollout happens."""
    policy = {"agents": draw.choice(("trusted", "untrusted"))}
    rewards = draw.choice((REWARDS, ANY_REWARDS))
    open_: list[tuple[str, Any]] = []
    for n in range(rollouts):
        name, answer = f"r{n}", draw.choice(ANSWERS)
        place = {
            "task": draw.choice((None, "t", "u", "v")), "repeat": draw.choice((None, 0, 0, 1)),
            "attempt": draw.choice((None, 0, 1, 2)), "repeats": draw.choice((None, 2, 4)),
        }  # fmt: skip
        facts = {"batch": "b", "model": "gpt-5", "upstream": "openai", "policy": policy, **place}
        known = {key: value for key, value in facts.items() if value is not None}
        registered = service.http.post("/rollouts", json={"id": name, **known})
        if registered.status_code == 409 and registered.json()["code"] == "measured":
            continue  # a task that has its repeats
        assert registered.status_code < 300, registered.text
        if not registered.json()["admitted"]:
            continue
        if draw.random() < 0.9:
            service.provider.plays(answer or answers.chat())
            ask = {"model": "gpt-5", "messages": []}
            service.http.post(f"/r/{name}/openai{CHAT}", json=ask)
        open_.append((name, draw.choice(rewards)))
    draw.shuffle(open_)
    for name, reported in open_[: len(open_) - draw.randrange(3)]:
        seen = {"status": "success", "prompts_executed": 1, "rewards": reported}
        told = service.http.post(f"/rollouts/{name}/outcome", json=seen)
        assert told.status_code == 200, told.text
        if draw.random() < 0.2:  # a call after the outcome
            service.provider.plays(answers.chat())
            service.http.post(f"/r/{name}/openai{CHAT}", json={"model": "gpt-5", "messages": []})


def counted_of(service: Service) -> CountedBatch:
    """Count the batch in Python, over all its rows."""
    assert service.app is not None
    database = inside.database(service.app)
    part = part_of(database.read(all_of, "b"))
    _, part.counts[NEVER_STARTED] = database.read(_tasks_planned, "b")
    shapes = part.single + Counter(each.shape for each in part.tasks.values() if each.repeats)
    exclusion = exclusion_in(part.counts, shapes)
    rewards, key = database.read(rewards_of, "b")
    summary = summary_of(
        part.counts, shapes, Named(), exclusion, reward_range=rewards.registered, score_key=key
    )
    return CountedBatch(counts=part.counts, summary=summary, rewards=rewards)


# --- surfaces ----------------------------------------------------------------------------------
# Each yields the name of a figure and its value there; of pages, its text.

TEXT = {"accept": "text/html", "user-agent": "Mozilla/5.0"}
_SHOWN = re.compile(r'<(?:a href="([^"]*)"|span) data-figure="([^"]+)">([^<]*)<')


def by_name(record: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name in FIGURES:
        outer, _, inner = name.partition(".")
        if outer in record:
            yield name, record[outer][inner] if inner else record[outer]


def summary(service: Service) -> Iterator[tuple[str, Any]]:
    yield from by_name(service.get("/batches/b"))


def listed(service: Service) -> Iterator[tuple[str, Any]]:
    (item,) = service.get("/batches")["items"]
    yield from by_name(item)


def printed(service: Service, *command: str) -> str:
    where, wide = ["--url", str(service.http.base_url)], {"COLUMNS": "300"}
    told = CliRunner().invoke(command_line, [*command, *where], env=wide)
    assert told.exit_code in (0, 1), told.output
    return told.stdout


def batch_json(service: Service) -> Iterator[tuple[str, Any]]:
    yield from by_name(json.loads(printed(service, "batch", "b", "--json")))


def batches_json(service: Service) -> Iterator[tuple[str, Any]]:
    (item,) = json.loads(printed(service, "batches", "--json"))
    yield from by_name(item)


def checked(service: Service) -> Iterator[tuple[str, Any]]:
    yield from by_name(service.get("/batches/b/check"))


def check_json(service: Service) -> Iterator[tuple[str, Any]]:
    yield from by_name(json.loads(printed(service, "check", "b", "--json")))


VALUES: tuple[Callable[[Service], Iterator[tuple[str, Any]]], ...] = (
    summary, listed, batch_json, batches_json, checked, check_json,
)  # fmt: skip


PATHS = ("/", *(f"/ui/batches/b?tab={tab}" for tab in TABS))


def pages(service: Service, paths: Sequence[str]) -> Iterator[tuple[str, str, str, str]]:
    """Yield where a page shows a figure, its name, its text, and the address of its list."""
    for path in paths:
        answer = service.http.get(path, headers=TEXT)
        assert answer.status_code == 200, path
        for href, name, text in _SHOWN.findall(answer.text):
            yield path, name, unescape(text), unescape(href)


def rows_of(service: Service, path: str, href: str) -> int:
    """Count the rows of a list that a page leads to, by its file."""
    address = href if href.startswith("/") else f"{path.partition('?')[0]}{href}"
    answer = service.http.get(f"{address}&file=jsonl")
    assert answer.status_code == 200, (address, answer.text)
    return len(answer.text.splitlines())


def counted_anew(service: Service) -> Mapping[str, Any]:
    service.get("/batches/b")  # judges what has changed
    return dict(json.loads(json.dumps(figures_of(counted_of(service)))))


def check(service: Service) -> None:
    truth = counted_anew(service)
    check_values(service, dict(by_name(truth)))
    assert check_pages(service, truth) > {"/", "/ui/batches/b?tab=overview"}
    check_printed(service, truth)
    check_lists(service, truth)
    check_tasks(service, truth)


def check_values(
    service: Service,
    values: Mapping[str, Any],
    surfaces: Sequence[Callable[[Service], Iterator[tuple[str, Any]]]] = VALUES,
) -> None:
    for surface in surfaces:
        told = dict(surface(service))
        known = {name: values[name] for name in told}
        assert told == known, surface.__name__
        assert told, surface.__name__


def check_pages(
    service: Service, truth: Mapping[str, Any], paths: Sequence[str] = PATHS
) -> set[str]:
    """Compare each text that a page marks as a figure, and the rows that it leads to.

    Returns:
        The pages that show any.
    """
    showing: set[str] = set()
    links: set[tuple[str, str, str]] = set()
    for path, full_name, text, href in pages(service, paths):
        said = shown(truth, *name_and_part(full_name))
        assert (text, bool(href)) == (said.text, said.query is not None), (path, full_name)
        showing.add(path)
        links.update({(path, href, text)} if href else ())
    for path, href, text in links:
        assert f"{rows_of(service, path, href):,}" == text, (path, href)
    return showing


def check_lists(service: Service, truth: Mapping[str, Any]) -> None:
    """Compare each figure with the rows of its list, as REST writes them to a file."""
    for name, value in by_name(truth):
        for part, number in (value if isinstance(value, dict) else {None: value}).items():
            if (query := FIGURES[name].query(part)) is not None:
                asked = {"batch": "b", **dict(query)}
                told = service.http.get("/rollouts", params=asked, headers={"accept": "text/csv"})
                assert told.status_code == 200, told.text
                assert len(told.text.splitlines()) - 1 == number, (name, part)


def check_tasks(service: Service, truth: Mapping[str, Any]) -> None:
    """Compare what tasks come to, with the repeats that name none."""
    file = service.http.get("/ui/batches/b?tab=tasks&file=jsonl").text
    tasks = [json.loads(line) for line in file.splitlines()]
    alone = {
        name: sum(item["task"] is None for item in service.get("/rollouts", **asked)["items"])
        for name in ("scored", "rollouts")
        for asked in [{"batch": "b", **dict(FIGURES[name].query() or ())}]
    }
    assert sum(task["measured"] for task in tasks) + alone["scored"] == truth["scored"]
    assert sum(task["repeats"] for task in tasks) + alone["rollouts"] == truth["repeats_planned"]
    checked = service.get("/batches/b/check")
    assert checked["valid"] == service.get("/batches/b")["valid"]


def name_and_part(full_name: str) -> tuple[str, str | int | None]:
    if full_name in FIGURES:
        return full_name, None
    name = max((each for each in FIGURES if full_name.startswith(f"{each}.")), key=len)
    part = full_name.removeprefix(f"{name}.")
    return name, int(part) if part.isdecimal() else part


def check_printed(service: Service, truth: Mapping[str, Any]) -> None:
    """Compare what `truezero batch` and `truezero batches` print."""
    told = " ".join(printed(service, "batch", "b").split())
    zeros = truth["zeros"]
    rollouts = f"{truth['rollouts']}, {truth['running']} running, {truth['skipped']} skipped"
    assert f"rollouts {rollouts}" in told
    assert measured_words(truth["scored"], truth["repeats_planned"], truth["own_failures"]) in told
    if zeros["not_measured"]:
        assert f"zeros {zeros['not_measured']} of {zeros['reported']} zero" in told
    assert (truth["score_effective"] is None) or f"score {truth['score_effective']:.3f}" in told
    if truth["score_reported"] is not None:
        score, reported = map(score_words, (truth["score_effective"], truth["score_reported"]))
        line = f"score {score}, as the harness reported it {reported}"
        assert line in printed(service, "check", "b").splitlines()
    row = printed(service, "batches").splitlines()[1].split()
    assert row[:2] == ["b", str(truth["rollouts"])]
    assert row[2] == str(truth["running"])
    assert row[3:6] == [str(truth["scored"]), "of", str(truth["total"])]


def check_moved(service: Service, other: Service) -> None:
    """Take the batch into another service: its figures are the same there."""
    with archive.export_records(service.database) as records:
        archive.import_records(other.database, list(records))
    check(other)
    figures, moved = (
        dict(by_name(each.get("/batches/b"))) | {"outdated": each.get("/batches/b")["outdated"]}
        for each in (service, other)
    )
    assert moved == figures


def test_every_surface_shows_each_figure_as_its_function_counts_it(services: Services) -> None:
    service = services(BREAKER_THRESHOLD="3")
    live(service, random.Random(2), 14)
    check(service)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 105))
def test_every_surface_shows_each_figure_after_longer_lives_and_after_an_import(
    on_both: Callable[..., Service], seed: int
) -> None:
    service = on_both(BREAKER_THRESHOLD="3")
    live(service, random.Random(seed), 30)
    check(service)
    check_moved(service, on_both(BREAKER_THRESHOLD="2"))
