"""Gemini's generateContent, chunk by chunk, and Interactions, event by event."""

from __future__ import annotations

from proxy.wire.dialects.gemini import INTERACTIONS
from tests.proxy.wire.samples import dump
from tests.tables import each

# --- Interactions ---------------------------------------------------------------------------------

YES = {"type": "text", "text": "Yes"}
SAYS = {"type": "model_output", "content": [YES]}


def event(kind: str, **payload: object) -> dict[str, object]:
    return {"event_type": kind, **payload}


def interaction(*steps: object, status: str = "completed") -> dict[str, object]:
    return {"id": "i", "status": status, "steps": list(steps)}


@each(
    "payload, relevant",
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
