from __future__ import annotations

from typing import Any

from classifier.records import Exchange
from tests.proxy.wire.observing import observed
from tests.proxy.wire.samples import SSE, dump

# --- SGLang's own ``/generate``: whole, streamed, and what else has its path ----------------------

PATH = "/generate"


def said(text: str, tokens: int, ended: object, version: str = "step-41", **more: Any) -> Any:
    """One payload, as python/sglang/srt/managers/tokenizer_manager.py writes it."""
    meta = {
        "id": "9e1", "finish_reason": ended, "prompt_tokens": 20, "completion_tokens": tokens,
        "cached_tokens": 8, "weight_version": version, **more,
    }  # fmt: skip
    return {"text": text, "output_ids": list(range(tokens)), "meta_info": meta}


def streamed(*payloads: Any, done: bool = True) -> Exchange:
    events = b"".join(b"data: " + dump(payload) + b"\n\n" for payload in payloads)
    return observed(events + b"data: [DONE]\n\n" * done, PATH, type_=SSE)


STOP = {"type": "stop", "matched": 2}
FACTS = ("api", "finish_reason", "content_seen", "weight_version", "failed")


def facts(exchange: Exchange) -> tuple[object, ...]:
    counts = (exchange.usage.input_total, exchange.usage.output_total)
    return (*(getattr(exchange, name) for name in FACTS), counts)


def test_it_is_read_whole_and_streamed() -> None:
    whole = observed(dump(said("It is done.", 5, STOP)), PATH)
    assert facts(whole) == ("sglang.generate", "stop", True, "step-41", False, (20, 5))
    assert whole.usage.cached_input_tokens == 8
    pieces = [said("It", 1, None), said("It is", 3, None), said("It is done.", 5, STOP)]
    assert facts(streamed(*pieces)) == facts(whole)
    assert facts(observed(dump([said("It is done.", 5, STOP)]), PATH)) == facts(whole)


def test_the_counts_of_several_prompts_are_not_added_up() -> None:
    both = observed(dump([said("One.", 2, STOP), said("Two.", 3, STOP)]), PATH)
    assert facts(both) == ("sglang.generate", "stop", True, "step-41", False, (None, None))


def test_what_others_answer_there_is_read_by_its_shape() -> None:
    tgi = {"generated_text": "a", "details": {"finish_reason": "length", "generated_tokens": 3}}
    read = observed(dump(tgi), PATH)
    assert facts(read) == ("opaque", "length", True, None, False, (None, 3))
    vllm = {"choices": [{"token_ids": [1, 2], "finish_reason": "stop"}]}  # tokens in and out
    assert facts(observed(dump(vllm), PATH)) == ("opaque", "stop", True, None, False, (None, None))
