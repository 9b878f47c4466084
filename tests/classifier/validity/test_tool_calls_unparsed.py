"""Tool calls that came as text."""

from __future__ import annotations

from classifier.validity.answers import TOOL_CALLS_UNPARSED
from tests.classifier.validity.judged import call, coverage, found, level, record

PARSED = call("200+tool", written_call=False)
TEXT = call("200", written_call=False)
WRITTEN = call("200", written_call=True)


def test_calls_written_as_text_are_found_where_they_matter() -> None:
    for calls, expected in (
        ([PARSED, TEXT], None),
        ([WRITTEN], "invalid"),  # the agent got no call, and stopped
        ([TEXT, WRITTEN], "invalid"),
        ([PARSED, WRITTEN], "suspect"),  # the parser works; the model may have slipped
        ([WRITTEN, TEXT], None),  # once, and it went on
        ([WRITTEN, WRITTEN, TEXT], "suspect"),
        ([WRITTEN, PARSED, WRITTEN, PARSED], "suspect"),
        ([WRITTEN, call("503")], None),
        ([WRITTEN, PARSED, call("200+side", written_call=True)], None),
    ):
        assert level(TOOL_CALLS_UNPARSED, record(calls)) == expected, [
            x.written_call for x in calls
        ]


def test_the_finding_says_whether_any_call_was_parsed() -> None:
    finding = found(TOOL_CALLS_UNPARSED, record([TEXT, WRITTEN, WRITTEN]))
    assert finding is not None
    assert finding.sentence == (
        "2 of 3 answers ended in a tool call written as text, the last one among them; none was "
        "ever parsed"
    )
    assert (finding.evidence, finding.about) == (("x1", "x2"), {"parsed_calls": 0})
    finding = found(TOOL_CALLS_UNPARSED, record([WRITTEN, WRITTEN, PARSED]))
    assert finding is not None
    assert finding.sentence == "2 of 3 answers ended in a tool call written as text"
    assert finding.about == {"parsed_calls": 1}


def test_it_is_about_calls_with_tools_and_covers_those_whose_text_was_seen() -> None:
    assert coverage(TOOL_CALLS_UNPARSED, record([TEXT, call("200")])) == (1, 2)
    assert coverage(TOOL_CALLS_UNPARSED, record([call("200")])) == (0, 1)
    assert coverage(TOOL_CALLS_UNPARSED, record([call("200+toolless")])) is None
    assert coverage(TOOL_CALLS_UNPARSED, record([call("429")])) is None
