"""Tool calls that came as text, because the engine in front of the model did not parse them.

The agent gets a text, finds no call in it and mostly stops. vLLM and SGLang parse calls only
with the parser of the model's format: github.com/vllm-project/vllm/issues/17161, /22975, /46863.
Capture sees whether a text ends, outside any code fence, in a call of a tool that the request
offered, in a format that models are trained on.
"""

from __future__ import annotations

from classifier.validity.check import Looked
from classifier.validity.measurement import Measurement, ids_of, tally
from classifier.verdicts import Coverage, Level, ValidityFinding, plural

TOOL_CALLS_UNPARSED = "tool_calls_unparsed"
_TWICE = 2  # once in the middle is a slip of the model, which the agent outlived


def tool_calls_unparsed(measured: Measurement) -> Looked | None:
    """Find the main lane's answers that end in an unparsed call.

    The last answer of a rollout in which no call was ever parsed is invalid. Where others were
    parsed the parser works, and the model may have missed its format.
    """
    main = measured.main
    seen = tally(main, "has_tools", "written_call")
    offered = sum(n for (has_tools, _), n in seen.items() if has_tools)
    looked = sum(n for (_, written), n in seen.items() if written is not None)
    if not offered and not looked:
        return None
    coverage = Coverage(looked=looked, of=max(offered, looked))
    if not any(written for _, written in seen):
        return Looked(coverage=coverage)
    written = [x for x in main if x.written_call]
    last = measured.ended_on
    ended = last is not None and bool(last.written_call)
    if not ended and len(written) < _TWICE:
        return Looked(coverage=coverage)
    parsed = sum(x.tool_calls or 0 for x in main)
    end = ", the last one among them" if ended else ""
    ever = "" if parsed else "; none was ever parsed"
    return Looked(
        coverage=coverage,
        finding=ValidityFinding(
            check=TOOL_CALLS_UNPARSED,
            level=Level.INVALID if ended and not parsed else Level.SUSPECT,
            calls=len(written),
            of=looked,
            evidence=ids_of(written),
            sentence=f"{len(written):,} of {plural(looked, 'answer')} ended in a tool call written "
            f"as text{end}{ever}",
            about={"parsed_calls": parsed},
        ),
    )
