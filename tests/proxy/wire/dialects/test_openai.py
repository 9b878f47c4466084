from __future__ import annotations

from proxy.wire.dialects.openai import CHAT
from tests.proxy.wire.samples import call, delta, dump, last
from tests.tables import each

# --- OpenAI's chat completions, chunk by chunk ----------------------------------------------------


@each(
    "payload, relevant",
    [
        (delta(content='say "usage": 1'), False),
        (delta(content="a"), False),
        (delta("stop"), True),
        (last({"prompt_tokens": 1}), True),
        ({"error": {"message": "m"}}, True),
        (delta(tool_calls=[call(0, "f", "{")]), True),
    ],
)
def test_events_that_state_nothing_need_no_parsing(
    payload: dict[str, object], relevant: bool
) -> None:
    assert CHAT.relevant is not None
    assert bool(CHAT.relevant.search(dump(payload))) is relevant
