"""Gemini's generateContent, chunk by chunk, and Interactions, event by event."""

from __future__ import annotations

import pytest

from proxy.wire.dialect import ResponseFacts
from proxy.wire.dialects.gemini import EMBED, GENERATE, INTERACTIONS
from tests.proxy.wire.samples import dump


def test_thoughts_stand_beside_the_candidates() -> None:
    reading = ResponseFacts()
    counts = {"promptTokenCount": 5, "candidatesTokenCount": 2, "thoughtsTokenCount": 7,
              "toolUsePromptTokenCount": 1}  # fmt: skip
    GENERATE.read(reading, {"usageMetadata": counts}, None)
    assert (reading.input_tokens, reading.output_tokens) == (5, 2)
    assert GENERATE.totals(reading) == (6, 9)


@pytest.mark.parametrize(
    ("reason", "kept"), [("STOP", "STOP"), (1, "1"), (0, None), ("FINISH_REASON_UNSPECIFIED", None)]
)
def test_an_unspecified_finish_reason_is_none(reason: object, kept: str | None) -> None:
    reading = ResponseFacts()
    GENERATE.read(reading, {"candidates": [{"finishReason": reason}]}, None)
    assert reading.finish_reason == kept
    assert reading.understood


def test_a_blocked_prompt_finishes_the_answer() -> None:
    reading = ResponseFacts()
    GENERATE.read(reading, {"promptFeedback": {"blockReason": "SAFETY"}}, None)
    assert (reading.finish_reason, reading.output) == ("SAFETY", False)


def test_code_assist_wraps_each_answer() -> None:
    reading = ResponseFacts()
    part = {"content": {"parts": [{"functionCall": {"name": "f"}}]}}
    GENERATE.read(reading, {"response": {"candidates": [part, part]}}, None)
    assert len(reading.calls) == 2


def test_a_vector_is_output() -> None:
    reading = ResponseFacts()
    EMBED.read(reading, {"embedding": {"values": [1]}}, None)
    assert (reading.understood, reading.output) == (True, True)


# --- Interactions ---------------------------------------------------------------------------------

YES = {"type": "text", "text": "Yes"}
SAYS = {"type": "model_output", "content": [YES]}


def event(kind: str, **payload: object) -> dict[str, object]:
    return {"event_type": kind, **payload}


def interaction(*steps: object, status: str = "completed") -> dict[str, object]:
    return {"id": "i", "status": status, "steps": list(steps)}


def heard(*payloads: dict[str, object]) -> ResponseFacts:
    reading = ResponseFacts()
    for payload in payloads:
        INTERACTIONS.read(reading, payload, None)
    return reading


@pytest.mark.parametrize(
    "kind", ["interaction.completed", "interaction.complete", "interaction.failed"]
)
def test_each_end_of_a_stream_ends_it_whether_it_states_a_status_or_not(kind: str) -> None:
    ended = heard(event(kind, interaction={"id": "i"}))
    assert (ended.ended, ended.pending) == (True, False)
    assert ended.finish_reason == kind.removeprefix("interaction.")
    stated = heard(event(kind, interaction={"id": "i", "status": "requires_action"}))
    assert (stated.ended, stated.finish_reason) == (True, "requires_action")


def test_an_interaction_in_the_background_is_pending_until_its_status_says_otherwise() -> None:
    reading = ResponseFacts()
    for status, pending in (("queued", True), ("in_progress", True), ("completed", False)):
        INTERACTIONS.read(reading, interaction(status=status), None)
        assert (reading.pending, reading.response_id) == (pending, "i")
    assert reading.finish_reason == "completed"


def test_a_call_is_counted_once_though_a_stream_repeats_it_at_its_end() -> None:
    call = {"type": "function_call", "id": "f1", "name": "f", "arguments": {}}
    reading = heard(
        event("step.start", index=0, step=call),
        event("step.delta", index=0, delta={"type": "arguments_delta", "arguments": "{}"}),
        event("interaction.completed", interaction=interaction(call, status="requires_action")),
    )
    assert len(reading.calls) == 1
    bare = {"type": "function_call", "name": "f"}
    reading = heard(
        event("step.start", index=1, step=bare),
        event("interaction.completed", interaction=interaction(SAYS, bare)),
    )
    assert len(reading.calls) == 1


def test_a_search_is_the_providers_and_what_was_put_in_is_nobodys_output() -> None:
    searched = heard(interaction({"type": "google_search_call", "id": "s"}))
    assert (len(searched.calls), searched.content) == (0, True)
    echoed = heard(
        interaction(
            {"type": "user_input", "content": [YES]},
            {"type": "function_result", "call_id": "f", "name": "f", "result": "0"},
        )
    )
    assert (echoed.output, echoed.has_part) == (False, True)


@pytest.mark.parametrize(
    ("payload", "relevant"),
    [
        (event("step.delta", index=0, delta={"type": "text", "text": 'say "usage": 1'}), False),
        (event("step.delta", index=0, delta={"type": "arguments_delta", "arguments": "{"}), False),
        (event("step.start", index=0, step={"type": "function_call", "name": "f"}), True),
        (event("step.stop", index=0), True),
        (event("interaction.completed", interaction={}), True),
        (event("interaction.status_update", status="failed"), True),
        (event("error", error={"code": "api_error"}), True),
    ],
)
def test_events_of_an_interaction_that_state_nothing_need_no_parsing(
    payload: dict[str, object], relevant: bool
) -> None:
    assert INTERACTIONS.relevant is not None
    assert bool(INTERACTIONS.relevant.search(dump(payload))) is relevant


def test_the_text_is_what_a_stream_says_or_a_whole_interaction() -> None:
    events = (
        event("step.start", index=0, step=SAYS),
        event("step.delta", index=0, delta={"type": "text", "text": "."}),
        event("step.delta", index=1, delta={"type": "thought_summary", "content": YES}),
        event("interaction.completed", interaction=interaction(SAYS)),
    )
    assert "".join(INTERACTIONS.text(each, None) for each in events) == "Yes."
    assert INTERACTIONS.text(interaction({"type": "thought"}, SAYS), None) == "Yes"
    assert INTERACTIONS.text({"status": "completed", "outputs": [YES]}, None) == "Yes"
