"""Verdicts as they are stored and answered."""

from __future__ import annotations

import json
from dataclasses import fields, replace

from hypothesis import given, settings
from hypothesis import strategies as st

from classifier import SEED, judge
from classifier.codec import decode_verdict, encode_result, encode_verdict
from classifier.records import RolloutRecord
from classifier.results import Result, result
from classifier.verdicts import Health, Verdict
from tests.builders import rollout
from tests.classifier.truth import TABLE
from tests.drawn import drawn


def test_every_verdict_of_the_truth_table_is_json() -> None:
    for row in TABLE:
        told = encode_verdict(row.verdict())
        assert json.loads(json.dumps(told)) == told


@given(drawn(Verdict))
def test_a_verdict_reads_back_equal(written: Verdict) -> None:
    stored = json.loads(json.dumps(encode_verdict(written)))
    assert decode_verdict(stored) == written
    assert decode_verdict(stored | {"colour": "blue"}) == written


def test_a_verdict_without_later_fields_has_their_defaults() -> None:
    needed = {"rollout_id": "r", "batch": None, "health": "healthy", "rule": "x", "policy": "seed"}
    bare = Verdict(rollout_id="r", batch=None, health=Health.HEALTHY, rule="x", policy="seed")
    assert decode_verdict(needed) == bare
    for name in set(encode_verdict(bare)) - set(needed):
        left = {key: value for key, value in encode_verdict(bare).items() if key != name}
        assert decode_verdict(left) == bare, name


def test_a_verdict_names_the_version_of_the_rules_that_gave_it() -> None:
    for text in ("429+quota*4", "200", ""):
        assert judge(rollout(text)).classifier == "3"
        assert judge(rollout(text), policy=SEED).classifier == "1"  # its rules never change
    stored = encode_verdict(judge(rollout("200"))) | {"classifier": "1"}
    assert encode_verdict(decode_verdict(stored)) == stored


def test_what_is_kept_in_memory_only_is_not_encoded() -> None:
    served = judge(rollout("200"))
    assert served.servings
    assert "servings" not in encode_verdict(served)
    assert decode_verdict(encode_verdict(served)) == replace(served, servings=())


@settings(max_examples=10)
@given(drawn(Verdict), drawn(RolloutRecord, exchanges=st.just(())))
def test_a_result_is_json_and_takes_from_the_verdict_what_both_declare(
    verdict: Verdict, judged: RolloutRecord
) -> None:
    record = result(judged, verdict)
    told = encode_result(record)
    assert json.loads(json.dumps(told)) == told
    same = {f.name for f in fields(Result)} & {f.name for f in fields(Verdict)}
    for name in same - {"rollout_id", "batch", "error"}:
        assert getattr(record, name) == getattr(verdict, name), name
