"""Traces masked by what a service recorded, and by the command; each format in `told/masks`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from click.testing import CliRunner, Result

import truezero
from tests.fakes import answers
from tests.fakes.provider import Answer
from tests.truezero import driving
from tests.truezero.sdk.test_client import VERDICT
from truezero.audit.mask import WireVerdicts, fetch, mask, response_ids, summary
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


def test_the_name_of_the_last_release_works_with_a_warning() -> None:
    with pytest.warns(DeprecationWarning, match=r"truezero\.audit\.mask"):
        from truezero.integrations.traces import mask as released
    assert released is mask


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
    with pytest.raises(ValueError, match="its format is not"):
        WireVerdicts.from_json({"verdicts": {}})


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
