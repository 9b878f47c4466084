"""Which rollouts of somebody's trace are measurements, and where their records say so."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from click.testing import CliRunner, Result

import truezero
from tests.fakes import answers
from tests.fakes.provider import Answer
from tests.truezero import driving
from tests.truezero.sdk.test_client import VERDICT
from truezero.audit.mask import Masked, WireVerdicts, fetch, mask, response_ids, summary
from truezero.cli import app as command_line

Record = dict[str, Any]

HEALTHY = {**VERDICT, "provisional": False, "scoreable": "yes"}
FAILED = {
    **HEALTHY, "health": "api_error", "error_category": "api_error", "scoreable": "no",
    "subcategory": "rate_limit", "error": "rate_limit: 6 of 6 calls failed",
    "retry": {"eligible": True, "after_s": None, "reason": "transient: retry 1 of 2"},
}  # fmt: skip


def call(number: int, **facts: Any) -> Record:
    """An answered exchange as REST has it; ``id-1`` is the id of the answer of number 1."""
    return {
        "id": f"x{number}", "kind": "inference", "role": "agent", "status": 200,
        "ending": "complete",
        "model": "m", "answered_model": "m-1", "started_at": 1000.0 + number, "duration_s": 0.5,
        "input_tokens": 10 * number, "input_total": 10 * number, "output_tokens": number,
        "output_total": number, "finish_reason": "stop", "subcategory": None, "transient": None,
        "answer_state": "read", "response_digest": f"d{number}", "provider_request_id": None,
        "weight_version": None, "system_fingerprint": None, **facts,
    }  # fmt: skip


def failure(number: int, status: int | None = 503, why: str = "provider_error") -> Record:
    return call(
        number, status=status, subcategory=why, transient=why != "auth", answer_state=None,
        response_digest=None, input_total=None, output_total=None, finish_reason=None,
        reason="overloaded" if status == 503 else None,
    )  # fmt: skip


DIGESTS = {f"id-{number}": f"d{number}" for number in range(20)}


def verdicts(
    calls: Mapping[str, Sequence[Record]], failed: Sequence[str] = (), shared: Sequence[str] = ()
) -> WireVerdicts:
    judged = {
        name: {**(FAILED if name in failed else HEALTHY), "rollout_id": name}
        for name in calls
        if name not in shared
    }
    return WireVerdicts(verdicts=judged, calls=calls, digests=DIGESTS, shared=shared)


# --- one rollout with two answers, as each package keeps it ------------------------------------


def rllm(name: str, *numbers: int) -> list[Record]:
    return [
        {
            "trace_id": f"t{number}", "session_id": name, "model": "m", "messages": [],
            "prompt_token_ids": [], "completion_token_ids": [1] * number, "logprobs": None,
            "token_counts": {"prompt": 10 * number, "completion": number}, "metadata": {},
            "latency_ms": 500.0, "timestamp": 1000.5 + number, "finish_reason": "stop",
            "raw_response": {"id": f"id-{number}", "choices": [{}]},
        }
        for number in numbers
    ]  # fmt: skip


def event(name: str, number: int, **data: Any) -> Record:
    return {
        "event_type": "model_request", "rollout_id": name, "attempt_id": "0",
        "timestamp": 1000.5 + number,
        "data": {
            "model": "m", "server": {"model": "m", "version": 3}, "latency_ms": 500.0,
            "http_status": 200, "status": "ok", "retry_count": 0,
            "response": {"id": f"id-{number}", "model": "m-1"},
            "usage": {"prompt_tokens": 10 * number, "completion_tokens": number}, **data,
        },
    }  # fmt: skip


def refused(name: str, number: int, status: int = 503, retries: int = 5) -> Record:
    data = {"http_status": status, "status": "error", "retry_count": retries, "usage": None}
    return event(name, number, **data, response={"error": {"message": "no"}}, latency_ms=9_000.0)


def reward(name: str, value: float) -> Record:
    return {
        "event_type": "reward", "rollout_id": name, "attempt_id": "0", "timestamp": 1100.0,
        "data": {"value": value},
    }  # fmt: skip


def events(name: str, *numbers: int) -> list[Record]:
    return [*(event(name, number) for number in numbers), reward(name, 0.0)]


def completed(name: str, *numbers: int) -> list[Record]:
    triplets = [{"prompt": {}, "response": {"token_ids": [1]}} for _ in numbers]
    return [{
        "rollout_id": name, "data_id": "q", "final_reward": 0.0, "triplets": triplets,
        "metadata": {}, "events": events(name, *numbers),
    }]  # fmt: skip


def atif(name: str, *numbers: int) -> list[Record]:
    steps = [{"step_id": 1, "source": "user", "message": "go"}] + [
        {
            "step_id": place + 2, "source": "agent", "message": "", "llm_call_count": 1,
            "metrics": {"prompt_tokens": 10 * number, "completion_tokens": number},
            "extra": {"response_id": f"id-{number}"},
        }
        for place, number in enumerate(numbers)
    ]  # fmt: skip
    return [{
        "schema_version": "ATIF-v1.8", "trajectory_id": name, "agent": {"model_name": "any/m"},
        "steps": steps,
    }]  # fmt: skip


def harbor(name: str, *numbers: int) -> list[Record]:
    detail = {
        "prompt_token_ids": [[7] * 10 * number for number in numbers],
        "completion_token_ids": [[7] * number for number in numbers],
    }
    return [{
        "trial_name": name, "agent_result": {"rollout_details": [detail], "metadata": None},
        "verifier_result": {"rewards": {"reward": 0.0}},
    }]  # fmt: skip


def nemo(name: str, *numbers: int) -> list[Record]:
    calls = [
        {
            "response_metadata": {"response_id": f"id-{number}", "model": "m", "status_code": 200},
            "token_stats": {"prompt_tokens": 10 * number, "completion_tokens": number},
            "completed_at": 1000.5 + number,
        }
        for number in numbers
    ]
    trajectory = {"schema_version": "1.0", "rollout_id": name, "model_calls": calls}
    return [{"reward": 0.0, "ng_trajectory": trajectory}]


def verifiers(name: str, *numbers: int) -> list[Record]:
    calls = [
        {
            "node": place, "model": "m", "error": None,
            "usage": {
                "prompt_tokens": 10 * number - 4, "cached_input_tokens": 4,
                "completion_tokens": number,
            },
            "time": {"start": 1000.0 + number, "end": 1000.5 + number},
        }
        for place, number in enumerate(numbers)
    ]  # fmt: skip
    nodes = [{"message": {}, "token_ids": [1, 2], "mask": [False, True]}, {"message": {}}]
    return [{
        "id": name, "calls": calls, "nodes": nodes, "rewards": {"solved": {"score": 0.0}},
        "info": {}, "ok": True, "errors": [], "agent": {"name": "agent", "trainable": True},
    }]  # fmt: skip


def openhands(name: str, *numbers: int) -> list[Record]:
    usages = [
        {
            "model": "openai/m", "prompt_tokens": 10 * number, "completion_tokens": number,
            "response_id": f"id-{number}",
        }
        for number in numbers
    ]  # fmt: skip
    history = [{"kind": "ActionEvent", "llm_response_id": f"id-{numbers[-1]}"}]
    return [{
        "instance_id": name, "test_result": {"resolved": False}, "history": history,
        "metrics": {"token_usages": usages}, "error": None,
    }]  # fmt: skip


def spans(name: str, *numbers: int) -> list[Record]:
    """Spans as the SDK prints them, the last first, and one of a tool."""
    made = [
        {
            "name": "chat m", "context": {"trace_id": f"0x{name}", "span_id": f"0x{number}"},
            "end_time": f"2026-11-24T00:00:{number:02}.5Z",
            "attributes": {
                "gen_ai.operation.name": "chat", "gen_ai.request.model": "m",
                "gen_ai.response.id": f"id-{number}", "gen_ai.usage.input_tokens": 10 * number,
                "gen_ai.usage.output_tokens": number,
            },
        }
        for number in reversed(numbers)
    ]  # fmt: skip
    tool = {"context": made[0]["context"], "attributes": {"gen_ai.operation.name": "execute_tool"}}
    return [*made, tool]


def otlp(name: str, *numbers: int) -> list[Record]:
    """The same as an export of OTLP in JSON."""

    def value(stated: object) -> Record:
        return {"intValue": str(stated)} if isinstance(stated, int) else {"stringValue": stated}

    made = [
        {
            "traceId": name, "endTimeUnixNano": str((1000 + place) * 10**9),
            "attributes": [
                {"key": key, "value": value(stated)} for key, stated in span["attributes"].items()
            ],
        }
        for place, span in enumerate(spans(name, *numbers)[-2::-1])
    ]  # fmt: skip
    return [{"resourceSpans": [{"resource": {}, "scopeSpans": [{"spans": made}]}]}]


@dataclass(frozen=True)
class Kept:
    """A package's trace, and its own fields of the mask: before, and where nothing was measured."""

    records: Callable[..., list[Record]]
    field: Callable[[list[Record]], object]
    before: object
    masked: object
    by_id: bool = True
    measured: object = None  # where the mask is a note of ours


def _nested(*path: str | int) -> Callable[[list[Record]], object]:
    def value(records: list[Record]) -> object:
        found: Any = records
        for key in path:
            found = found.get(key) if isinstance(found, dict) else found[key]
        return found

    return value


def _fields(*paths: tuple[str | int, ...]) -> Callable[[list[Record]], object]:
    return lambda records: [_nested(*path)(records) for path in paths]


def _measured(records: list[Record]) -> object:
    return [each["metadata"].get("truezero", {}).get("measured") for each in records]


def _of_spans(records: list[Record]) -> object:
    return [each["attributes"].get("truezero.measured") for each in records]


def _of_otlp(records: list[Record]) -> object:
    found = records[0]["resourceSpans"][0]["scopeSpans"][0]["spans"]
    keys = [
        {each["key"]: next(iter(each["value"].values())) for each in span["attributes"]}
        for span in found
    ]
    return [key.get("truezero.measured") for key in keys]


TRACES = {
    "rllm-model-gateway": Kept(
        rllm, _measured, [None, None], [False, False], measured=[True, True]
    ),
    "Agent Lightning events": Kept(
        events,
        _fields((0, "data", "status"), (1, "data", "status"), (2, "data", "value")),
        ["ok", "ok", 0.0],
        ["error", "error", None],
    ),
    "Agent Lightning rollouts": Kept(
        completed,
        lambda records: (len(records[0]["triplets"]), records[0]["final_reward"]),
        (2, 0.0),
        (0, None),
    ),
    "ATIF": Kept(
        atif,
        lambda records: records[0].get("extra", {}).get("truezero", {}).get("measured"),
        None,
        False,
        measured=True,
    ),
    "Harbor": Kept(
        harbor,
        lambda records: (
            records[0]["verifier_result"]["rewards"],
            records[0]["agent_result"]["rollout_details"] is None,
        ),
        ({"reward": 0.0}, False),
        (None, True),
        by_id=False,
    ),
    "NeMo Gym": Kept(
        nemo,
        _fields((0, "mask_sample"), (0, "_ng_failure_class")),
        [None, None],
        [True, "truezero:rate_limit"],
    ),
    "verifiers": Kept(
        verifiers,
        _fields(
            (0, "ok"), (0, "rewards"), (0, "agent", "trainable"), (0, "nodes", 0, "mask"),
            (0, "errors"),
        ),
        [True, {"solved": {"score": 0.0}}, True, [False, True], []],
        [
            False, {"solved": None}, False, [False, False],
            [{
                "type": "truezero_masked", "status_code": None, "traceback": None,
                "message": "truezero_masked: rate_limit: 6 of 6 calls failed",
            }],
        ],
        by_id=False,
    ),
    "OpenHands": Kept(
        openhands,
        _nested(0, "error"),
        None,
        "truezero_masked: rate_limit: 6 of 6 calls failed",
    ),
    "OpenTelemetry": Kept(
        spans, _of_spans, [None] * 3, [False] * 3, measured=[True] * 3
    ),
    "OpenTelemetry, as OTLP": Kept(
        otlp, _of_otlp, [None, None], [False, False], measured=[True, True]
    ),
}  # fmt: skip


@pytest.fixture(params=TRACES)
def kept(request: pytest.FixtureRequest) -> Iterator[Kept]:
    yield TRACES[request.param]


def test_the_fields_of_a_format_are_those_that_are_masked(kept: Kept) -> None:
    assert kept.field(kept.records("r", 1, 2)) == kept.before


def test_a_rollout_without_a_measurement_is_masked_in_its_own_field_and_named(kept: Kept) -> None:
    records = kept.records("r", 1, 2)
    before = copy.deepcopy(records)
    masked = mask(records, verdicts({"r": [call(1), call(2), failure(3)]}, failed=["r"]))
    assert records == before
    assert kept.field(masked.records) == kept.masked
    assert masked.resample == ["r"]
    [trace] = masked.traces
    assert (trace.measured, trace.joined, trace.kind) == (False, 2, "rate_limit")
    assert trace.missing == {"retry": ["x3"]}
    assert masked.kept == []
    json.dumps(masked.records)


def test_a_measured_rollout_keeps_its_fields_and_is_joined_call_by_call(kept: Kept) -> None:
    records = kept.records("r", 1, 2)
    side = call(9)
    masked = mask(records, verdicts({"r": [failure(0), call(1), side, call(2)]}))
    [trace] = masked.traces
    assert (trace.measured, trace.joined, trace.unseen, trace.unjoined) == (True, 2, 0, 0)
    assert trace.missing == {"retry": ["x0"], "side": ["x9"]}
    assert masked.resample == []
    assert len(masked.kept) == len(records)
    assert kept.field(masked.records) == (kept.measured or kept.before)


def test_what_is_not_known_keeps_its_fields_and_says_so(kept: Kept) -> None:
    records = kept.records("r", 1, 2)
    masked = mask(records, WireVerdicts(digests=DIGESTS))
    assert kept.field(masked.records) == kept.before
    [trace] = masked.traces
    assert (trace.measured, trace.joined, trace.truezero) == (None, 0, None)
    assert (trace.unseen, trace.unjoined) == ((2, 0) if kept.by_id else (0, 2))
    assert masked.resample == []
    assert len(masked.kept) == len(records)


def test_a_trace_is_joined_by_the_ids_of_its_answers_whatever_it_calls_its_rollout(
    kept: Kept,
) -> None:
    records = kept.records("another-name", 1, 2)
    judged = verdicts({"r": [call(1), call(2)], "s": [call(3)]}, failed=["r"])
    [trace] = mask(records, judged).traces
    if kept.by_id:
        assert (trace.truezero, trace.measured, trace.joined) == ("r", False, 2)
    else:
        assert (trace.truezero, trace.measured) == (None, None)
        [trace] = mask(records, judged, rollouts={"another-name": "r"}).traces
        assert (trace.truezero, trace.measured, trace.joined) == ("r", False, 2)


# --- joining -----------------------------------------------------------------------------------


def joined(trace: Masked) -> list[int]:
    return [each.joined for each in trace.traces]


def test_without_an_id_a_call_is_joined_by_its_place_its_model_and_its_sizes() -> None:
    wire = verdicts({"r": [call(1), call(2), call(2) | {"id": "again"}, call(3)]})
    assert joined(mask(verifiers("r", 1, 2, 3), wire)) == [3]
    assert joined(mask(verifiers("r", 2, 1), wire)) == [2]  # by the times of their ends
    [swapped] = mask(harbor("r", 2, 1), wire).traces  # no times: the order counts
    assert (swapped.joined, swapped.unjoined) == (1, 1)
    [other] = mask(
        verifiers("r", 1), verdicts({"r": [call(1, model="x", answered_model="y")]})
    ).traces
    assert (other.joined, other.unjoined) == (0, 1)


def test_a_call_whose_size_or_id_differs_is_not_taken_for_another() -> None:
    nothing = harbor("r", 1)
    nothing[0]["agent_result"]["rollout_details"][0]["prompt_token_ids"] = []
    assert joined(mask(nothing, verdicts({"r": [call(1)]}))) == [0]
    assert joined(mask(rllm("r", 4), verdicts({"r": [call(4, response_digest="d5")]}))) == [0]
    old = call(4, response_digest=None)  # recorded before answers had a digest
    assert joined(mask(rllm("r", 4), verdicts({"r": [old]}))) == [1]
    assert joined(mask(rllm("r", 4), verdicts({"r": [failure(4)]}))) == [0]


def test_answers_that_share_an_id_are_told_apart_by_their_sizes() -> None:
    same = [call(number, response_digest="d1") for number in (1, 2)]
    records = [*rllm("r", 1), *rllm("r", 2)]
    for record in records:
        record["raw_response"]["id"] = "id-1"
    assert joined(mask(records, verdicts({"r": same}))) == [2]


def test_a_copied_step_and_a_step_without_a_call_are_no_calls_of_a_trajectory() -> None:
    [trajectory] = atif("r", 1, 2, 3)
    trajectory["steps"][1]["is_copied_context"] = True
    trajectory["steps"][2] |= {"llm_call_count": 0}
    trajectory["subagent_trajectories"] = atif("sub", 4)
    assert response_ids([trajectory]) == ["id-3", "id-4"]


def test_records_of_an_unknown_or_of_two_formats_are_refused() -> None:
    with pytest.raises(ValueError, match="record 1 is of no known format; it has text"):
        mask([{"text": ""}], WireVerdicts())
    with pytest.raises(ValueError, match="ATIF and Harbor are mixed"):
        mask([*atif("r", 1), *harbor("r", 1)], WireVerdicts())
    assert mask([], WireVerdicts()).records == []


# --- calls of many rollouts under one name -----------------------------------------------------


def lane(*calls: Record) -> WireVerdicts:
    """Calls that an engine's one address was asked under."""
    return verdicts({"step": calls}, shared=["step"])


def test_a_rollout_whose_calls_came_among_others_is_judged_by_its_calls() -> None:
    records = [
        *events("good", 1, 2), event("bad", 3), refused("bad", 4), *events("elsewhere", 7),
        event("recovered", 5), refused("recovered", 4), event("recovered", 6),
    ]  # fmt: skip
    wire = lane(call(1), call(2), call(3), failure(4), call(5), call(6))
    found = {each.rollout: each for each in mask(records, wire).traces}
    assert {name: each.measured for name, each in found.items()} == {
        "good": True, "bad": False, "elsewhere": None, "recovered": True,
    }  # fmt: skip
    bad = found["bad"]
    assert (bad.kind, bad.resample, bad.by) == ("provider_error", True, "calls")
    assert bad.reason == "its last call failed: provider_error, status 503 (exchange x4)"
    assert bad.endings == {"unavailable": 1}
    assert bad.retries == 5
    assert found["elsewhere"].reason == "no call of it is known on the wire"


@pytest.mark.parametrize(
    ("wire", "reason"),
    [
        ((call(3),), "its last call failed, and not on the wire"),
        ((call(3), failure(4, 429, "rate_limit")), "its last call failed, and not on the wire"),
        ((call(3), failure(40)), "its last call failed, and not on the wire"),
        ((call(3), failure(4, why="rejected_request")), "its last call failed: rejected_request"),
    ],
)  # fmt: skip
def test_a_failure_that_the_wire_does_not_prove_stays_unknown(
    wire: Sequence[Record], reason: str
) -> None:
    [trace] = mask([event("bad", 3), refused("bad", 4)], lane(*wire)).traces
    assert trace.measured is None
    assert trace.reason.startswith(reason)


def test_a_dead_key_is_masked_and_not_run_again() -> None:
    wire = lane(failure(4, 401, "auth"))
    masked = mask([refused("bad", 4, status=401)], wire)
    assert (masked.traces[0].measured, masked.resample) == (False, [])


def test_an_answer_that_the_engine_aborted_masks_its_rollout() -> None:
    masked = mask(events("r", 1, 2), lane(call(1), call(2, finish_reason="abort")))
    [trace] = masked.traces
    assert (trace.measured, trace.kind, trace.endings) == (False, "engine_aborted", {"aborted": 1})
    assert masked.resample == ["r"]


def test_an_abort_before_a_word_is_the_last_call_of_its_rollout() -> None:
    aborted = failure(2, 200) | {"response_digest": "d2", "reason": "aborted"}
    [trace] = mask(rllm("r", 1, 2), lane(call(1), aborted)).traces
    assert (trace.measured, trace.endings) == (False, {"aborted": 1})


def test_calls_that_no_trace_has_are_reported_of_a_shared_rollout_too() -> None:
    masked = mask(events("r", 1), lane(call(1), failure(2), failure(3), call(4)))
    assert masked.shared_missing == {"retry": ["x2", "x3"], "side": ["x4"]}
    [counts, calls, *_] = summary(masked)
    assert counts == "1 rollout of Agent Lightning events: 0 measured, 0 masked, 1 unknown"
    assert calls == "1 call joined; the trace lacks 2 retries and 1 side call of the wire"


def test_a_later_failure_that_no_trace_has_may_be_any_traces_own() -> None:
    """Gateways keep nothing of a call whose connection broke."""
    records = [*events("early", 1), *events("late", 9)]
    broken = failure(4, status=None)
    found = {each.rollout: each for each in mask(records, lane(call(1), broken, call(9))).traces}
    assert {name: each.measured for name, each in found.items()} == {"early": None, "late": True}
    reason = "a failed call that no trace has may be its own (exchange x4)"
    assert found["early"].reason == reason


def test_a_failure_that_goes_on_with_a_traces_conversation_is_its_own() -> None:
    records = [*events("early", 1), *events("other", 2)]
    wire = lane(call(1), call(2), failure(4, status=None) | {"continues": "x1"})
    found = {each.rollout: each for each in mask(records, wire).traces}
    assert {name: each.measured for name, each in found.items()} == {"early": False, "other": True}
    assert found["early"].reason.endswith("provider_error, no answer (exchange x4)")
    again = mask([*events("r", 1, 6)], lane(call(1), failure(2) | {"continues": "x1"}, call(6)))
    assert again.traces[0].measured is True, "it was made good"


def test_retries_of_a_call_that_its_trace_counts_are_nobody_elses() -> None:
    records = [*events("early", 1), event("retried", 9, retry_count=2, latency_ms=7_000.0)]
    wire = lane(call(1), failure(4), failure(6), call(9))
    found = {each.rollout: each.measured for each in mask(records, wire).traces}
    assert found == {"early": True, "retried": True}


def test_an_answer_that_could_not_be_read_proves_nothing() -> None:
    [trace] = mask(events("r", 1), lane(call(1, answer_state="unseen"))).traces
    assert (trace.measured, trace.reason) == (None, "an answer to it could not be read")


# --- what is said ------------------------------------------------------------------------------


def test_a_trace_that_spans_versions_of_the_weights_says_so() -> None:
    wire = verdicts({"r": [
        call(1, weight_version="7", system_fingerprint="fp-a"),
        call(2, weight_version="7,8", system_fingerprint="fp-b"),
    ]})  # fmt: skip
    masked = mask(rllm("r", 1, 2), wire)
    [trace] = masked.traces
    assert trace.weight_versions == ("7", "8")
    assert trace.system_fingerprints == ("fp-a", "fp-b")
    assert trace.spans_versions
    note = masked.records[0]["metadata"]["truezero"]
    assert (note["weight_versions"], note["measured"]) == (("7", "8"), True)
    assert note["spans_versions"] is True
    assert "r: spans weight versions 7, 8" in summary(masked)


def test_versions_that_only_the_trace_names_are_taken_from_it() -> None:
    later = event("r", 2, server={"model": "m", "version": 4})
    [trace] = mask([event("r", 1), later], verdicts({"r": [call(1), call(2)]})).traces
    assert trace.weight_versions == ("3", "4")


def test_a_rollout_of_the_wire_without_a_trace_is_named_to_be_run_again() -> None:
    wire = verdicts({"r": [call(1)], "lost": [failure(2)]}, failed=["lost"])
    masked = mask(rllm("r", 1), wire)
    assert masked.resample == ["lost"]
    assert [(each.truezero, each.measured) for each in masked.absent] == [("lost", False)]
    assert "the trace lacks 1 rollout of the wire" in summary(masked)


@pytest.mark.parametrize(
    ("verdict", "measured"),
    [
        ({"provisional": True}, None),
        ({"scoreable": "unknown", "health": "not_judged"}, None),
        ({"scoreable": "no", "excluded_by": ["max_steps"]}, False),
    ],
)
def test_a_verdict_that_cannot_tell_masks_nothing(verdict: Record, measured: bool | None) -> None:
    judged = WireVerdicts(
        verdicts={"r": {**HEALTHY, **verdict}}, calls={"r": [call(1)]}, digests=DIGESTS
    )
    [trace] = mask(rllm("r", 1), judged).traces
    assert trace.measured is measured


def test_the_name_of_the_last_release_works_with_a_warning() -> None:
    with pytest.warns(DeprecationWarning, match=r"truezero\.audit\.mask"):
        from truezero.integrations.traces import mask as released
    assert released is mask


def test_verdicts_are_kept_as_json_to_mask_with_elsewhere() -> None:
    judged = verdicts({"r": [call(1)], "step": [call(2)]}, failed=["r"], shared=["step"])
    stored = json.loads(json.dumps(judged.to_json()))
    assert mask(rllm("r", 1), WireVerdicts.from_json(stored)) == mask(rllm("r", 1), judged)
    with pytest.raises(ValueError, match="its format is not"):
        WireVerdicts.from_json({"verdicts": {}})


# --- against a running service -------------------------------------------------------------------


class Played(NamedTuple):
    """A batch with a rollout that was measured and one that was struck, and a trace of both."""

    url: str
    solved: str
    struck: str
    wire: WireVerdicts
    records: list[Record]


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Played]:
    with (
        driving.service(tmp_path_factory.mktemp("traces")) as (url, _, _),
        truezero.Client(url) as client,
    ):
        ids, records = [], []
        for task, key in (("solved", "sk-good"), ("struck", "sk-down")):
            registered = client.register(batch="step-12", task=task, model="gpt-5")
            for _ in range(2):
                driving.call(registered.base_urls["openai"], key)
            client.report(registered.id, rewards={"reward": 0.0}, prompts_executed=1)
            ids.append(registered.id)
            for n, each in enumerate(client.exchanges(registered.id), 1):
                counts = {"prompt": each.input_tokens, "completion": each.output_tokens}
                at = {"model": "gpt-5", "timestamp": each.started_at + 0.5, "token_counts": counts}
                records.append({**rllm(registered.id, n)[0], **at})
        solved, struck = ids
        yield Played(url, solved, struck, fetch(client, "step-12", records), records)


def test_a_trace_is_masked_by_what_a_service_recorded(played: Played) -> None:
    masked = mask(played.records, played.wire)
    measured = {trace.rollout: trace.measured for trace in masked.traces}
    assert measured == {played.solved: True, played.struck: False}
    assert masked.resample == [played.struck]
    again = WireVerdicts.from_json(json.loads(json.dumps(played.wire.to_json())))
    assert again.to_json() == played.wire.to_json()


def test_the_service_makes_the_digests_by_which_answers_are_found(played: Played) -> None:
    """The provider of this test gives each answer one id."""
    with truezero.Client(played.url) as client:
        many = [f"id-{number}" for number in range(20_001)]
        digests = client.digests([*many, "chatcmpl-1"])
        assert client.digests([]) == {}
        calls = client.exchanges(played.solved)
        exported = [json.loads(line) for line in client.export(batch="step-12")]
    assert [*digests] == [*many, "chatcmpl-1"]
    assert len({*digests.values()}) == len(digests)
    assert {each.response_digest for each in calls} == {digests["chatcmpl-1"]}
    rows = [each for each in exported if each["record"] == "exchange"]
    digest_by_status = {(each["status"], each["response_digest"]) for each in rows}
    assert digest_by_status == {(200, digests["chatcmpl-1"]), (503, None)}


def test_an_answer_is_found_by_its_id_alone(played: Played) -> None:
    with truezero.Client(played.url) as client:
        named = client.register(batch="named", task="named", model="gpt-5")
        driving.call(named.base_urls["openai"])
        record = {**rllm("a name of its own", 1)[0], "token_counts": {}, "completion_token_ids": []}
        record["raw_response"] = {"id": "chatcmpl-1", "choices": [{}]}
        client.report(named.id, rewards={"reward": 1.0}, prompts_executed=1)
        masked = mask([record], fetch(client, "named", [record]))
        shared = mask([record], fetch(client, "named", [record], shared=[named.id]))
    assert [(each.truezero, each.joined) for each in masked.traces] == [(named.id, 1)]
    assert [(each.truezero, each.joined, each.by) for each in shared.traces] == [(None, 1, "calls")]


def test_versions_of_the_weights_and_endings_of_the_engine_come_off_the_wire(
    tmp_path: Path,
) -> None:
    def says(number: int, finish: str, **facts: object) -> Answer:
        usage = {"prompt_tokens": 10 * number, "completion_tokens": number}
        choice = {"message": {"content": "Yes."}, "finish_reason": finish}
        return answers.whole({"id": f"id-{number}", "choices": [choice], "usage": usage, **facts})

    paused = answers.whole({"error": {"message": "The engine is paused", "code": 503}}, 503)
    with (
        driving.service(tmp_path) as (url, provider, _),
        truezero.Client(url) as client,
    ):
        provider.plays(
            says(1, "stop", metadata={"weight_version": "7"}, system_fingerprint="fp-a"),
            paused,
            says(2, "stop", metadata={"weight_version": "8"}, system_fingerprint="fp-b"),
            says(3, "abort", metadata={"weight_version": "8"}, system_fingerprint="fp-b"),
        )
        registered = client.register(batch="step-13", model="gpt-5")
        for _ in range(4):
            driving.call(registered.base_urls["openai"])
        client.report(registered.id, rewards={"reward": 0.0}, prompts_executed=1)
        records = [{**each, "model": "gpt-5"} for each in rllm(registered.id, 1, 2, 3)]
        [trace] = mask(records, fetch(client, "step-13", records)).traces
    assert (trace.joined, trace.spans_versions) == (3, True)
    assert trace.weight_versions == ("7", "8")
    assert trace.system_fingerprints == ("fp-a", "fp-b")
    assert trace.endings == {"aborted": 1, "unavailable": 1}
    assert [len(ids) for ids in trace.missing.values()] == [1]


def test_ids_that_the_service_would_refuse_are_not_sent() -> None:
    def named(response_id: str) -> Record:
        return {**rllm("r", 1)[0], "raw_response": {"id": response_id}}

    records = [named("x" * 1000), named("x" * 1001), named("\ud800"), named("y")]
    assert response_ids(records) == ["x" * 1000, "y"]


def test_a_rollout_without_a_trace_is_named(played: Played) -> None:
    kept = [each for each in played.records if each["session_id"] == played.solved]
    (absent,) = mask(kept, played.wire).absent
    assert (absent.truezero, absent.measured) == (played.struck, False)


def run(played: Played, *words: object) -> Result:
    command = ["mask", *map(str, words), "--batch", "step-12", "--url", played.url]
    return CliRunner().invoke(command_line, command)


@pytest.mark.parametrize("shape", ["lines", "list"])
def test_the_command_writes_a_masked_copy_in_the_traces_own_shape(
    played: Played, tmp_path: Path, shape: str
) -> None:
    trace, copy_ = tmp_path / "trace", tmp_path / "copy"
    lines = "".join(json.dumps(each) + "\n" for each in played.records)
    text = lines if shape == "lines" else json.dumps(played.records)
    trace.write_text(text)
    done = run(played, trace, "--write", copy_)
    assert done.exit_code == 0, done.output
    assert done.stdout.splitlines()[0].endswith("1 measured, 1 masked, 0 unknown")
    assert f"{played.struck}: masked: " in done.stdout
    written = copy_.read_text()
    rows = list(map(json.loads, written.splitlines())) if shape == "lines" else json.loads(written)
    assert rows == mask(played.records, played.wire).records
    assert trace.read_text() == text


def test_the_command_says_what_it_cannot_mask(played: Played, tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    for content, sentence in (
        ("{", "not JSON"), ("", "no records"), ("[1]", "no records"), ('{"a": 1}', "format"),
    ):  # fmt: skip
        trace.write_text(content)
        done = run(played, trace)
        assert done.exit_code == 2, content
        assert sentence in done.output, content
    assert run(played, tmp_path / "missing").exit_code == 2
    trace.write_text(json.dumps(played.records))
    own = run(played, trace, "--write", trace)
    assert (own.exit_code, json.loads(trace.read_text())) == (2, played.records)
