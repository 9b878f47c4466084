"""What was left failed, and what makes a failure good."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

from classifier import EVIDENCE, Subcategory, judge
from classifier.evidence import Evidence, Strength, UnresolvedFailures
from tests.builders import cause, rollout


def tail(text: str) -> UnresolvedFailures:
    return Evidence.of(rollout(text), EVIDENCE).tail


def left(text: str) -> list[str]:
    return [call.last.id for call in tail(text).calls]


def test_causes_are_ordered_by_how_much_they_prove() -> None:
    rejected = Subcategory.REJECTED_REQUEST
    assert Strength.of(cause(rejected, reason="malformed")) is Strength.EXPLAINED
    assert Strength.of(cause(rejected)) is Strength.UNEXPLAINED
    for subcategory in Subcategory:
        if subcategory is not rejected:
            strength = Strength.TRANSIENT if subcategory.transient else Strength.PERMANENT
            assert Strength.of(cause(subcategory)) is strength, subcategory
    assert Strength.of(cause(Subcategory.QUOTA, transient=True)) is Strength.TRANSIENT
    assert sorted(Strength) == [*Strength]


def test_the_strongest_cause_names_the_tail_in_whatever_order() -> None:
    for text, strength, statuses in (
        ("200+tool 400+malformed", Strength.EXPLAINED, [400]),
        ("200+tool 400 400+malformed", Strength.UNEXPLAINED, [400]),
        ("200+tool 400+malformed 400", Strength.UNEXPLAINED, [400]),
        ("200+tool 503 400", Strength.TRANSIENT, [503]),
        ("200+tool 503 429+quota 503", Strength.PERMANENT, [429]),
        ("200+tool 503 401 429+quota 400", Strength.PERMANENT, [401, 429]),
    ):
        found = tail(text)
        assert (found.strength, [x.status for x in found.strongest]) == (strength, statuses), text
    assert tail("200+tool") == UnresolvedFailures()


def test_an_answer_that_began_after_a_failure_makes_it_good() -> None:
    assert left("503 200") == []
    assert left("503+large 200+small+toolless") == []
    assert left("200 503") == ["x1"]


def test_an_overlapping_answer_must_be_of_the_same_conversation() -> None:
    failed = "200+tool[0-1] 503[2-9] "
    for answer, excused in (
        ("200[3-5]", True),
        ("200+large[3-5]", True),
        ("200+large[8-20]", True),
        ("200+small[3-5]", False),  # fewer bytes
        ("200+toolless[3-5]", False),  # no tools
        ("200+toolless[3-20]", False),
        ("200+large[1-5]", False),  # began earlier
        ("200+small[9-10]", True),  # no overlap
    ):
        assert (left(failed + answer) == []) is excused, answer


def test_where_no_call_offers_tools_none_is_needed() -> None:
    assert left("200+toolless[0-1] 503+toolless[2-9] 200+toolless[3-5]") == []


def test_the_same_request_answered_meanwhile_is_the_same_answer() -> None:
    assert left("200[0-5] 429+again[1-2]") == []
    assert left("200[0-1] 429+again[2-3]") == ["x1"]


def test_a_call_without_tools_after_a_final_answer_is_a_recap() -> None:
    for text, ids in (
        ("200+tool 200 503+toolless", []),
        ("200+tool 200+refusal 503+toolless", []),
        ("200+tool 503+toolless", ["x1"]),
        ("200+tool 200+length 503+toolless", ["x2"]),
        ("200+tool 200+thought 503+toolless", ["x2"]),
        ("200+tool 200+unread 503+toolless", ["x2"]),
        ("200+toolless 503+toolless", ["x1"]),
        ("200+tool 200 503+toolless 503", ["x3"]),
    ):
        assert left(text) == ids, text


def test_another_model_continues_only_what_ended_before_it_began() -> None:
    for answer, continued in (
        ("200+tool@mini[9-12]", True),
        ("200+tool+small@mini[9-12]", True),
        ("200+tool+small@mini[8-12]", False),
        ("200+toolless@mini[9-12]", False),
    ):
        found = tail("200+tool@big[0-2] 200+tool@big[2-4] 503@big[4-9] " + answer)
        assert (found.continued, len(found.calls)) == (continued, 1), answer


def opcodes(run: Callable[[], object]) -> int:
    """Count the bytecode instructions of a call."""
    count = 0

    def inside(_frame: FrameType, event: str, _argument: object) -> Callable[..., Any]:
        nonlocal count
        count += event == "opcode"
        return inside

    def entered(frame: FrameType, _event: str, _argument: object) -> Callable[..., Any]:
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return inside

    before = sys.gettrace()
    sys.settrace(entered)
    try:
        run()
    finally:
        sys.settrace(before)
    return count


def test_twice_the_calls_are_twice_the_work() -> None:
    for text in (
        "200+tool*{}",
        "429*{}",
        "200+tool 503*{}",
        "left*{}",
        "200+thought*{}",
        "200+tool 400*{}",
        "200+tool*{0} 503[0-9999]*{0} 200+small[1-9999]*{0}",
        "200+tool@a*{0} 503@a*{0} 200+tool@b[1-9999]*{0}",
        "200+queued 200+polled*{}",
        "503 503^1*{}",
    ):
        small, large = rollout(text.format(40)), rollout(text.format(160))
        judge(large)
        grown = opcodes(lambda rollout=large: judge(rollout))  # type: ignore[misc]
        once = opcodes(lambda rollout=small: judge(rollout))  # type: ignore[misc]
        assert grown < 4.4 * once, text
