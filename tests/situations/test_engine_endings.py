"""What an engine does to calls as it pauses, drains, dies and starts again is never a zero.

Bodies are this project's own words in the shapes that vLLM (vllm/entrypoints/openai, #57082),
SGLang (python/sglang/srt/managers/tokenizer_manager.py) and llama.cpp (tools/server) send.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from classifier import judge
from classifier.records import Ending, Exchange, RolloutRecord
from classifier.verdicts import Health, Subcategory, Verdict
from tests.builders import rollout
from tests.proxy.wire.observing import observed
from tests.proxy.wire.samples import SSE, delta, dump, sse


def choice(text: str) -> bytes:
    return dump({"choices": [{"message": {"content": text}, "finish_reason": "abort"}]})


def error(message: str, kind: str, code: int) -> dict[str, object]:
    return {"error": {"message": message, "type": kind, "code": code}}


def generated(text: str) -> bytes:
    ended = {"type": "abort"}
    meta = {"finish_reason": ended, "prompt_tokens": 9, "completion_tokens": 0}
    return dump({"text": text, "output_ids": [], "meta_info": meta})


def refused(status: int, *said: object) -> Exchange:
    return observed(dump(error(*said)), status=status)  # type: ignore[arg-type]


def streamed(*events: object, done: bool = True, ending: Ending = Ending.COMPLETE) -> Exchange:
    return observed(sse(*events, done=done), type_=SSE, ending=ending)


DIED = error("The engine core died, see above", "BadRequestError", 400)  # as vLLM's streams say it
(ANSWERED,), (DOWN,) = rollout("200+tool").exchanges, rollout("net").exchanges
# A part of the answer came, which no one would call a failure.
MIDWAY: Mapping[str, Exchange] = {
    "aborted": observed(choice("I think")),
    "aborted, streamed": streamed(delta(content="I think"), delta("abort")),
    "SGLang's own call, aborted": observed(generated("I think"), "/generate"),
}
ENDS: Mapping[str, Exchange] = {
    "aborted before a word": observed(choice("")),
    "the same, streamed": streamed(delta(content=""), delta("abort")),
    "aborted while it thought": streamed(delta(reasoning_content="Let me see"), delta("abort")),
    "SGLang's own call, aborted before a word": observed(generated(""), "/generate"),
    "aborted, as Anthropic's API": observed(
        dump({"type": "message", "content": [], "stop_reason": "abort"}), "/v1/messages"
    ),
    "draining": refused(503, "The server is shutting down", "ServiceUnavailable", 503),
    "draining, by a 400": refused(400, "The server is shutting down", "BadRequestError", 400),
    "aborted by a 503": observed(dump({"detail": "Stopped by an AbortReq."}), status=503),
    "a full queue, in the stream": streamed(
        error("The queue of requests is full", "SERVICE_UNAVAILABLE", 503)
    ),
    "dead": observed(dump(DIED), status=500),
    "dead before the stream's first word": streamed(DIED),
    "dead in the stream": streamed(delta(content="I"), DIED),
    "gone in the stream": streamed(
        delta(content="I"), done=False, ending=Ending.CUT_UPSTREAM
    ),
    "loading": refused(503, "Loading model", "unavailable_error", 503),
    **MIDWAY,
}  # fmt: skip


def judged(*exchanges: Exchange) -> Verdict:
    """Judge a rollout that scored 0 and made these calls, one a second."""
    placed = tuple(
        replace(
            exchange,
            id=f"x{at}",
            model=ANSWERED.model,
            answered_model=None,
            upstream=ANSWERED.upstream,
            has_tools=True,
            request_digest=f"d{at}",
            timing=replace(ANSWERED.timing, started_at=ANSWERED.timing.started_at + at),
        )
        for at, exchange in enumerate(exchanges)
    )
    return judge(replace(rollout("200+tool"), exchanges=placed))


def test_a_rollout_that_ends_so_is_no_zero_and_is_run_again() -> None:
    for name, ended in {**ENDS, "down": DOWN}.items():
        assert (ended.cause is None) is (name in MIDWAY), (name, ended.cause)
        for calls in ((ANSWERED, ended), (ended,)):
            verdict = judged(*calls)
            assert verdict.scoreable == "no", (name, verdict.rule)
            assert verdict.retry.eligible, (name, verdict.retry.reason)
            said = (verdict.health, verdict.excluded_by, verdict.subcategory, verdict.transient)
            if name in MIDWAY:
                assert said[:2] == (Health.HEALTHY, ("engine_aborted",)), name
            else:
                assert said == (Health.API_ERROR, (), Subcategory.PROVIDER_ERROR, True), name


def test_what_a_later_answer_makes_good_counts() -> None:
    for name, ended in ENDS.items():
        verdict = judged(ANSWERED, ended, ANSWERED)
        assert (verdict.health, verdict.scoreable) == (Health.HEALTHY, "yes"), name
        levels = [each.level.value for each in verdict.validity]
        assert levels == ["suspect"] * (name in MIDWAY), name
        assert not verdict.retry.eligible, name


def test_other_doubts_about_an_aborted_answer_are_no_reason_to_run_it_again() -> None:
    """Out of steps by the batch's policy: the next attempt would be so too."""
    record = rollout("200+tool 200", termination_reason="max_steps")
    last = replace(record.exchanges[-1], finish_reason="abort")
    ended: RolloutRecord = replace(record, exchanges=(record.exchanges[0], last))
    assert judge(ended).retry.eligible
    verdict = judge(replace(ended, max_steps="exclude"))
    assert verdict.excluded_by == ("max_steps", "engine_aborted")
    assert not verdict.retry.eligible
