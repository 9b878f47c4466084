"""The card of a batch is its summary, made of its export, and whatever is edited is found."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from classifier import codec
from classifier.card import (
    DOES_NOT_PROVE,
    PROVIDER_REQUEST_IDS,
    SELF_REPORTED,
    Stated,
    card_bytes,
    card_of,
    differences,
)
from classifier.exported_batch import (
    COUNTED,
    ExportedBatch,
    counted_by,
    decode_counted,
    encode_counted,
)
from classifier.records import RolloutRecord
from classifier.rules import judge
from tests.builders import rollout

STATED = Stated(
    batch="nightly",
    truezero="0.2.0",
    classifier="7",
    origins={"openai": "api.openai.com"},
    harness="inspect_ai 0.3.285",
)
Records = list[dict[str, Any]]


def attempt(task: str, repeat: int, *calls: str, reward: float, **facts: Any) -> RolloutRecord:
    name = f"{task}-{repeat}-{facts.get('attempt', 0)}"
    made = rollout(
        *calls, id=name, batch="nightly", task=task, repeat=repeat, began_at=float(len(name)),
        **{"attempt": 0, **facts},
    )  # fmt: skip
    assert made.outcome is not None
    outcome = replace(made.outcome, rewards={"reward": reward})
    exchanges = tuple(
        replace(x, id=f"{name}:{n}", rollout_id=name, provider_request_id=f"req-{name}-{n}")
        for n, x in enumerate(made.exchanges)
    )
    return replace(made, outcome=outcome, exchanges=exchanges)


def nightly() -> list[RolloutRecord]:
    return [
        attempt("one", 0, "200+tool", "200", reward=1.0),
        attempt("one", 1, "401", "401", reward=0.0),
        attempt("two", 0, "200+tool", "200", reward=0.0),
        attempt("two", 1, "200+tool", "429+quota", "429+quota", reward=0.0),
        attempt("three", 0, "503", "503", reward=0.0),
        attempt("three", 0, "200+tool", "200", reward=1.0, attempt=1),
        attempt("four", 0, "200+empty", "200+empty", reward=0.0),
    ]


def export(rollouts: list[RolloutRecord], *, says_counts: bool = True) -> Records:
    """Export as the service does, or as 0.2 did: without what rollouts count."""
    records: Records = []
    for each in rollouts:
        verdict = judge(each)
        counted = encode_counted(counted_by(each, verdict), version=verdict.classifier)
        said = {COUNTED: counted} if says_counts else {}
        records.append({"record": "rollout", **codec.encode_rollout(each), **said})
        assert each.outcome is not None
        owner = {"record": "outcome", "rollout_id": each.id}
        records.append({**owner, **codec.encode_outcome(each.outcome)})
        records += [{"record": "exchange", **codec.encode_exchange(x)} for x in each.exchanges]
    parsed: Records = json.loads(json.dumps(records))
    return parsed


@pytest.fixture(scope="module")
def records() -> Records:
    return export(nightly())


@pytest.fixture(scope="module")
def card(records: Records) -> dict[str, Any]:
    return card_of(records, STATED)


def test_it_says_how_many_zeros_are_none_and_why(card: dict[str, Any]) -> None:
    zeros = card["measured"]["zeros"]
    assert (zeros["reported"], zeros["not_measured"]) == (4, 3)
    assert zeros["by_cause"] == {"auth": 1, "quota": 1, "suspected": 1}


def test_it_has_the_score_with_and_without_them(card: dict[str, Any]) -> None:
    score = card["measured"]["score"]
    assert (score["repeats"], score["measured"], score["coverage"]) == (6, 3, 0.5)
    assert (score["scoreable"], score["own_failures"]) == (3, 0)
    assert (score["score"], score["failures_as_0"]) == (0.666667, 0.333333)
    assert (score["least"], score["most"]) == (0.333333, 0.833333)
    assert card["measured"]["valid"] is False


def test_it_lists_who_answered(card: dict[str, Any]) -> None:
    measured = card["measured"]
    (answered,) = measured["models"]["answered"]
    assert answered == {
        "upstream": "openai", "asked": "gpt-5", "answered": None, "served_by": None,
        "origin": "api.openai.com", "rollouts": 5,
    }  # fmt: skip
    assert measured["models"]["registered"] == [{"model": None, "fallbacks": [], "rollouts": 7}]
    assert (measured["rollouts"], measured["calls"]["total"]) == (7, 9)
    assert measured["agents"] == {"trusted": 7}


def test_it_says_what_it_does_not_prove(card: dict[str, Any]) -> None:
    assert card["does_not_prove"] == list(DOES_NOT_PROVE)


def test_rollouts_in_another_order_make_the_same_bytes(card: dict[str, Any]) -> None:
    for seed in range(5):
        rollouts = nightly()
        random.Random(seed).shuffle(rollouts)
        assert card_bytes(card_of(export(rollouts), STATED)) == card_bytes(card)


def test_records_of_a_rollout_that_are_not_together_are_refused(records: Records) -> None:
    with pytest.raises(ValueError, match="not together"):
        card_of([*records, records[0]], STATED)


def test_a_card_that_was_read_back_is_made_again_from_what_it_states(
    records: Records, card: dict[str, Any]
) -> None:
    read = json.loads(card_bytes(card))
    assert Stated.decode(read["stated"]) == STATED
    assert differences(read, card_of(records, Stated.decode(read["stated"]))) == []


def test_a_batch_without_request_ids_is_self_reported(card: dict[str, Any]) -> None:
    assert card["roots"]["provenance"] == PROVIDER_REQUEST_IDS
    bare = [
        replace(
            each,
            exchanges=tuple(replace(x, provider_request_id=None) for x in each.exchanges),
        )
        for each in nightly()
    ]
    roots = card_of(export(bare), STATED)["roots"]
    assert (roots["provenance"], roots["request_ids"]) == (SELF_REPORTED, 0)


def test_request_ids_are_in_the_export_only(records: Records, card: dict[str, Any]) -> None:
    assert card["roots"]["request_ids"] == 15
    assert b"req-" not in card_bytes(card)


# --- single edits: each is found ---

SEEDS = [*range(25), *(pytest.param(n, marks=pytest.mark.slow) for n in range(25, 100))]


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if isinstance(value, dict):
        for key, each in value.items():
            yield from places(each, (*path, key))
    elif isinstance(value, list) and value:
        for number, each in enumerate(value):
            yield from places(each, (*path, number))
    else:
        yield path


def edited(value: Any, path: tuple[Any, ...], rnd: random.Random) -> Any:
    made = copy.deepcopy(value)
    holder = made
    for part in path[:-1]:
        holder = holder[part]
    old = holder[path[-1]]
    match old:
        case bool():
            holder[path[-1]] = not old
        case int():
            holder[path[-1]] = old + rnd.choice((-1, 1, 7))
        case float():
            holder[path[-1]] = old + rnd.choice((-0.25, 0.000001, 3.0))
        case str():
            at = rnd.randrange(len(old) + 1)
            holder[path[-1]] = f"{old[:at]}f{old[at:]}"
        case None:
            holder[path[-1]] = 1
        case _:
            holder[path[-1]] = [1]
    return made


@pytest.mark.parametrize("seed", SEEDS)
def test_an_edit_of_a_card_is_found(seed: int, card: dict[str, Any]) -> None:
    rnd = random.Random(seed)
    parts = [p for p in places(card) if p[0] != "stated"]  # which nobody can compute again
    path = rnd.choice(parts)
    assert differences(edited(card, path, rnd), card), path


@pytest.mark.parametrize("seed", SEEDS)
def test_an_edit_of_an_export_is_found(seed: int, records: Records, card: dict[str, Any]) -> None:
    rnd = random.Random(seed)
    forged = edited(records, rnd.choice(list(places(records))), rnd)
    if json.dumps(forged) == json.dumps(records):
        pytest.fail("nothing was edited")
    try:
        again = card_of(forged, STATED)
    except ValueError:
        return  # it cannot be read
    assert any(line.startswith("roots.export: ") for line in differences(card, again))


# --- registered beside answered ---


def test_registered_models_stand_beside_those_that_answered() -> None:
    rollouts = [
        replace(attempt("one", 0, "200+tool", "200", reward=1.0), model="gpt-5"),
        replace(attempt("two", 0, "200+tool", "200", reward=0.0), model="gpt-5", fallbacks=("m",)),
        replace(attempt("three", 0, "200+tool", "200", reward=0.0), model="gpt-5"),
    ]
    swapped = tuple(replace(x, answered_model="gpt-4o") for x in rollouts[2].exchanges)
    models = card_of(export([*rollouts[:2], replace(rollouts[2], exchanges=swapped)]), STATED)[
        "measured"
    ]["models"]
    assert [tuple(each.values()) for each in models["registered"]] == [
        ("gpt-5", [], 2), ("gpt-5", ["m"], 1),
    ]  # fmt: skip
    assert [(each["answered"], each["rollouts"]) for each in models["answered"]] == [
        (None, 2), ("gpt-4o", 1),
    ]  # fmt: skip


# --- an export says what its rollouts count ---


def test_what_a_rollout_counts_is_read_back_from_its_record() -> None:
    rollouts = [
        *nightly(),
        attempt("five", 0, "200+tool", "200", reward=1.0, skipped="skipped: breaker open"),
        attempt("six", 0, "401", "401", reward=1.0, fallbacks=("m", "n")),
    ]
    for each in rollouts:
        counted = counted_by(each, judge(each))
        said = json.loads(json.dumps(encode_counted(counted, version="7")))
        assert decode_counted(each, said) == counted


@pytest.mark.parametrize(
    ("fact", "value"),
    [
        ("health", "well"), ("scoreable", "perhaps"), ("reward", "1"), ("provisional", 1),
        ("validity", "suspect"), ("servings", "7"), ("servings", "[7]"), ("servings", "[[7]]"),
        ("diagnostics", []), ("diagnostics", {"other_info": {}}), ("total_tokens", 0.5),
    ],
)  # fmt: skip
def test_a_count_of_another_kind_is_named(fact: str, value: object, records: Records) -> None:
    forged = copy.deepcopy(records)
    forged[0][COUNTED][fact] = value
    with pytest.raises(ValueError, match=fact if fact != "health" else "well"):
        card_of(forged, STATED)


def test_an_export_that_does_not_say_what_rollouts_count_has_them_judged(
    records: Records, card: dict[str, Any]
) -> None:
    older = card_of(export(nightly(), says_counts=False), STATED)
    assert older["measured"] == card["measured"]
    assert older["roots"]["export"] != card["roots"]["export"]


def test_a_verdict_that_its_calls_do_not_give_is_noted(records: Records) -> None:
    assert ExportedBatch.of(records, judged_anew=True).changed == []
    forged = copy.deepcopy(records)
    (won,) = (each for each in forged if each.get("id") == "one-1-0" and COUNTED in each)
    won[COUNTED] |= {"health": "healthy", "scoreable": "yes", "diagnostics": {}}
    assert ExportedBatch.of(forged).changed == [], "nothing was judged"
    (changed,) = ExportedBatch.of(forged, judged_anew=True).changed
    assert (changed.rollout_id, changed.version) == ("one-1-0", None)
    assert 'health "healthy" in the export, "api_error" by its calls' in changed.facts
    won[COUNTED]["classifier"] = "1"
    (changed,) = ExportedBatch.of(forged, judged_anew=True).changed
    assert changed.version == "1"
