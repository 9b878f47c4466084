from __future__ import annotations

from truezero.runner.audit.errors import FinishedRun, RecordedCall, RecordedError


def test_what_files_do_not_say_is_none_and_never_zero() -> None:
    run, call, error = FinishedRun(id="r", task="t"), RecordedCall(), RecordedError()
    assert (run.reward, run.tokens, run.tool_calls, run.calls, run.output) == (None,) * 5
    assert (call.content, call.input_tokens, call.output_tokens, call.tool_calls) == (None,) * 4
    assert (error.status, error.type, error.body) == (None,) * 3
