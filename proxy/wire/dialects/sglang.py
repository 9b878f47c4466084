"""SGLang's own ``/generate``, whole or as a stream whose events repeat all that came before.

Trainers ask it for tokens (slime, verl, AReaL). ``meta_info`` has the counts, why it ended and the
version of the weights (python/sglang/srt/managers/tokenizer_manager.py).
"""

from __future__ import annotations

import re
from typing import Final

from proxy.wire import usage
from proxy.wire.dialect import Dialect, Payload, Reading, part
from proxy.wire.serving import take_weights

_RELEVANT = re.compile(rb'"finish_reason"\s*:\s*[{"]|"error"')


def _read(reading: Reading, payload: Payload, event: str | None) -> None:
    meta = payload.get("meta_info")
    if not isinstance(meta, dict):
        return
    another = reading.finish_reason is not None  # one call may have several prompts
    reading.understood = True
    reading.note_content(payload.get("text"))
    reading.note_content(payload.get("output_ids"))
    ended = meta.get("finish_reason")
    reading.take_finish_reason(part(ended).get("type") or ended)
    take_weights(reading, meta)
    usage.take(reading, usage.OPENAI, meta)
    if another:  # whose counts are not added up
        reading.input_tokens = reading.output_tokens = reading.cached_input_tokens = None
        reading.reasoning_tokens = None


GENERATE: Final[Dialect] = Dialect(
    name="sglang.generate",
    read=_read,
    totals=usage.inclusive,
    relevant=_RELEVANT,
    relevant_reasoning=_RELEVANT,
    cumulative=True,
    done=b"[DONE]",
    shape_keys=frozenset(("meta_info",)),
)
