"""What an engine does to calls as it pauses, drains, dies and starts again is never a zero.

Bodies are this project's own words in the shapes that vLLM (vllm/entrypoints/openai, #57082),
SGLang (python/sglang/srt/managers/tokenizer_manager.py) and llama.cpp (tools/server) send.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from classifier import judge
from classifier.records import Ending, Exchange, RolloutRecord
from classifier.verdicts import Health, Subcategory, Verdict
from tests.builders import rollout
from tests.proxy.wire.observing import observed
from tests.proxy.wire.samples import SSE, delta, dump, sse

MESSAGES = "/v1/messages"
GENERATE = "/generate"


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """How a call ends; ``said``: a part of the answer came, which no one would call a failure."""

    body: bytes = b""
    status: int = 200
    type_: str = "application/json"
    ending: Ending = Ending.COMPLETE
    path: str = "/v1/chat/completions"
    said: bool = False

    def observed(self) -> Exchange:
        return observed(
            self.body, self.path, status=self.status, type_=self.type_, ending=self.ending
        )


def choice(text: str, why: str) -> bytes:
    return dump({"choices": [{"message": {"content": text}, "finish_reason": why}]})


def error(message: str, kind: str, code: int) -> dict[str, object]:
    return {"error": {"message": message, "type": kind, "code": code}}


def generated(text: str, **ended: object) -> bytes:
    meta = {"finish_reason": {"type": "abort", **ended}, "prompt_tokens": 9, "completion_tokens": 0}
    return dump({"text": text, "output_ids": [], "meta_info": meta})


DIED = error("The engine core died, see above", "BadRequestError", 400)  # as vLLM's streams say it
ENDS: Mapping[str, End] = {
    "aborted before a word": End(body=choice("", "abort")),
    "the same, streamed": End(
        body=sse(delta(content=""), delta("abort")), type_=SSE
    ),
    "aborted while it thought": End(
        body=sse(delta(reasoning_content="Let me see"), delta("abort")), type_=SSE
    ),
    "aborted midway": End(body=choice("I think", "abort"), said=True),
    "the same, streamed midway": End(
        body=sse(delta(content="I think"), delta("abort")), type_=SSE, said=True
    ),
    "SGLang's own call, aborted": End(body=generated(""), path=GENERATE),
    "the same, midway": End(body=generated("I think"), path=GENERATE, said=True),
    "aborted, as Anthropic's API": End(
        body=dump({"type": "message", "content": [], "stop_reason": "abort"}), path=MESSAGES
    ),
    "draining": End(
        body=dump(error("The server is shutting down", "ServiceUnavailable", 503)), status=503
    ),
    "draining, by a 400": End(
        body=dump(error("The server is shutting down", "BadRequestError", 400)), status=400
    ),
    "aborted by a 503": End(body=dump({"detail": "Stopped by an AbortReq."}), status=503),
    "a full queue, in the stream": End(
        body=sse(error("The queue of requests is full", "SERVICE_UNAVAILABLE", 503)),
        type_=SSE,
    ),
    "dead": End(body=dump(DIED), status=500),
    "dead before the stream's first word": End(body=sse(DIED), type_=SSE),
    "dead in the stream": End(body=sse(delta(content="I"), DIED), type_=SSE),
    "gone in the stream": End(
        body=sse(delta(content="I"), done=False), type_=SSE, ending=Ending.CUT_UPSTREAM
    ),
    "loading": End(
        body=dump(error("Loading model", "unavailable_error", 503)), status=503
    ),
}  # fmt: skip


def judged(*exchanges: Exchange) -> Verdict:
    """Judge a rollout that scored 0 and made these calls, one a second."""
    record = rollout("200+tool")
    (like,) = record.exchanges
    placed = tuple(
        replace(
            exchange,
            id=f"x{at}",
            model=like.model,
            answered_model=None,
            upstream=like.upstream,
            has_tools=True,
            request_digest=f"d{at}",
            timing=replace(like.timing, started_at=like.timing.started_at + at),
        )
        for at, exchange in enumerate(exchanges)
    )
    return judge(replace(record, exchanges=placed))


def answer() -> Exchange:
    (answered,) = rollout("200+tool").exchanges
    return answered


def restarted() -> Exchange:
    (refused,) = rollout("net").exchanges
    return refused


def test_a_rollout_that_ends_so_is_no_zero_and_is_run_again() -> None:
    found = {name: (end.observed(), end.said) for name, end in ENDS.items()}
    for name, (ended, said) in {**found, "down": (restarted(), False)}.items():
        assert (ended.cause is None) is said, (name, ended.cause)
        for calls in ((answer(), ended), (ended,)):
            verdict = judged(*calls)
            assert verdict.scoreable == "no", (name, verdict.rule)
            assert verdict.retry.eligible, (name, verdict.retry.reason)
            if said:
                assert (verdict.health, verdict.excluded_by) == (
                    Health.HEALTHY, ("engine_aborted",),
                ), name  # fmt: skip
            else:
                assert verdict.health is Health.API_ERROR, name
                assert verdict.subcategory is Subcategory.PROVIDER_ERROR, name
                assert verdict.transient is True, name


def test_what_a_later_answer_makes_good_counts() -> None:
    for name, end in ENDS.items():
        verdict = judged(answer(), end.observed(), answer())
        assert (verdict.health, verdict.scoreable) == (Health.HEALTHY, "yes"), name
        assert [each.level.value for each in verdict.validity] == ["suspect"] * end.said, name
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
