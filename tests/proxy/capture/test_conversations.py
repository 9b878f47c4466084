"""Which call goes on with which, and that nothing of what was said is kept."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from proxy.capture.request import Conversations

SYSTEM = {"system": "You fix bugs.", "tools": [{"name": "look"}]}
HELLO = {"role": "user", "content": "Find it."}


def turn(number: int) -> list[dict[str, Any]]:
    """What one call adds: its answer, and what the tool said."""
    return [
        {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "look",
                                           "input": {"at": f"line {number}"}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t",
                                      "content": f"text of {number} " * 90}]},
    ]  # fmt: skip


def talk(turns: int) -> list[dict[str, Any]]:
    return [HELLO, *(message for number in range(turns) for message in turn(number))]


class Rollout:
    """One rollout, whose calls are named x1, x2 and so on."""

    def __init__(self, known: Conversations | None = None, name: str = "r1") -> None:
        self.known = known or Conversations(b"secret")
        self.name = name
        self.calls = 0

    def _follow(self, messages: list[Any], more: dict[str, Any] | None, **how: Any) -> Any:
        self.calls += 1
        payload = {**SYSTEM, "messages": messages, **(more or {})}
        return self.known.follow(self.name, f"x{self.calls}", payload, messages, **how)

    def says(self, messages: list[Any], more: dict[str, Any] | None = None, **how: Any) -> Any:
        """What the call goes on with."""
        return self._follow(messages, more, **how)[1]

    def begins(self, messages: list[Any], address: str | None, **how: Any) -> Any:
        """Whether the call's conversation began elsewhere before."""
        return self._follow(messages, None, address=address, **how)[2]

    def fails(self, messages: list[Any], address: str | None = None) -> None:
        self._follow(messages, None, address=address)[0].failed = True


# -- what goes on --------------------------------------------------------------------------


def test_each_call_goes_on_with_the_one_before() -> None:
    rollout = Rollout()
    assert [rollout.says(talk(turns)) for turns in range(40)] == [
        None, *(f"x{number}" for number in range(1, 40)),
    ]  # fmt: skip


def test_a_mark_that_moves_and_another_order_of_keys_change_nothing() -> None:
    rollout = Rollout()
    for turns in range(6):
        messages = [dict(reversed(message.items())) for message in talk(turns)]
        last = messages[-1]["content"]
        text = last if isinstance(last, str) else last[0].pop("content")
        messages[-1]["content"] = [
            {"cache_control": {"type": "ephemeral"}, "content": [{"type": "text", "text": text}]}
        ]
        if turns == 0:
            messages[-1]["content"] = [
                {"type": "text", "text": text, "cache_control": {"type": "ephemeral"}}
            ]
        assert rollout.says(messages) == (f"x{turns}" if turns else None)


@pytest.mark.parametrize(
    "change",
    [
        {"system": "You write poems."}, {"tools": []}, {"tools": [{"name": "write"}]},
        {"tools": [{"name": "look"}, {"name": "look"}]},
    ],
)  # fmt: skip
def test_other_instructions_or_tools_are_another_conversation(change: dict[str, Any]) -> None:
    rollout = Rollout()
    rollout.says(talk(1))
    assert rollout.says(talk(2), change) is None
    assert rollout.says(talk(2)) == "x1"


def test_another_model_is_another_conversation() -> None:
    rollout = Rollout()
    rollout.says(talk(1), model="one")
    assert rollout.says(talk(2), model="two") is None
    assert rollout.says(talk(2), model="one") == "x1"


def test_where_an_earlier_message_is_missing_or_another_nothing_goes_on() -> None:
    changes: tuple[Callable[[list[Any]], list[Any]], ...] = (
        lambda m: [m[0], *m[3:]],  # compaction
        lambda m: [{"role": "user", "content": "Summary of it."}, *m[1:]],
        lambda m: [*m[:4], {"role": "user", "content": "[removed]"}, *m[5:]],
        lambda m: [*m[:8], {"role": "user", "content": "[removed]"}, *m[9:]],
    )
    for change in changes:
        rollout = Rollout()
        for turns in range(5):
            rollout.says(talk(turns))
        assert rollout.says(change(talk(5))) is None


def test_the_same_messages_again_go_on_with_what_they_went_on_with() -> None:
    rollout = Rollout()
    rollout.says(talk(1))
    rollout.says(talk(2))
    assert rollout.says(talk(2)) == "x1"
    assert rollout.says(talk(3)) == "x3"


def test_a_call_that_was_not_answered_is_passed_over() -> None:
    rollout = Rollout()
    rollout.says(talk(1))
    rollout.fails(talk(2))
    assert rollout.says(talk(3)) == "x1"
    assert rollout.says(talk(4)) == "x3"


def test_conversations_side_by_side_are_told_apart() -> None:
    rollout = Rollout()
    helper = [{"role": "user", "content": "You are to count."}]
    rollout.says(talk(1))
    assert rollout.says(helper) is None
    assert rollout.says(talk(2)) == "x1"
    assert rollout.says([*helper, *turn(7)]) == "x2"
    assert Rollout(rollout.known, "r2").says(talk(3)) is None


IMAGE = {"role": "user", "content": [{"type": "image", "source": {"data": "x"}}]}
THOUGHT = {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm"}]}


@pytest.mark.parametrize("changing", [IMAGE, THOUGHT])
def test_what_may_be_counted_otherwise_later_ends_it_for_good(changing: dict[str, Any]) -> None:
    rollout = Rollout()
    rollout.says(talk(1))
    mixed = [*talk(2), changing]
    assert rollout.says(mixed) is None
    assert rollout.says([*mixed, *turn(9)]) is None
    first = Rollout()
    first.says([HELLO, changing])
    assert first.says([HELLO, changing, *turn(1)]) is None


@pytest.mark.parametrize(
    "field", [{"context_management": {"edits": [1]}}, {"previous_response_id": "r"}]
)
def test_what_the_server_changes_is_not_compared(field: dict[str, Any]) -> None:
    rollout = Rollout()
    rollout.says(talk(1))
    assert rollout.says(talk(2), field) is None
    assert rollout.says(talk(3)) is None


def test_a_long_conversation_that_nobody_saw_begin_is_not_known_to_be_plain() -> None:
    rollout = Rollout()
    rollout.says(talk(8))
    assert rollout.says(talk(9)) is None
    known = Rollout()
    known.says(talk(1))
    assert known.says(talk(8)) == "x1"
    assert known.says(talk(17)) is None


# -- who began it --------------------------------------------------------------------------


def test_a_beginning_that_comes_again_from_elsewhere_is_told() -> None:
    rollout = Rollout()
    assert rollout.begins(talk(0), "10.0.0.1") is False
    assert rollout.begins(talk(0), "10.0.0.1") is False
    assert rollout.begins(talk(1), "10.0.0.1") is None
    assert rollout.begins(talk(0), "10.0.0.2") is True
    assert rollout.begins(talk(0), "10.0.0.2") is True
    assert rollout.begins([{"role": "user", "content": "Other."}], "10.0.0.2") is False
    assert Rollout(rollout.known, "r2").begins(talk(0), "10.0.0.3") is False


def test_what_is_no_beginning_is_not_looked_at() -> None:
    rollout = Rollout()
    assert rollout.begins(talk(0), None) is None
    assert rollout.begins(talk(1), "10.0.0.1") is None


def test_going_on_from_elsewhere_is_no_beginning() -> None:
    rollout = Rollout()
    user = [HELLO, {"role": "user", "content": "And quickly."}]
    rollout.begins([HELLO], "10.0.0.1")
    assert rollout.begins(user, "10.0.0.2") is None


def test_a_beginning_that_was_not_answered_may_come_again_from_elsewhere() -> None:
    rollout = Rollout()
    rollout.fails(talk(0), "10.0.0.1")
    assert rollout.begins(talk(0), "10.0.0.2") is False


def test_two_that_began_alike_each_go_on_with_their_own() -> None:
    rollout = Rollout()
    rollout.begins(talk(0), "10.0.0.1")
    rollout.begins(talk(1), "10.0.0.1")
    assert rollout.begins(talk(0), "10.0.0.2") is True
    assert rollout.says(talk(2), address="10.0.0.1") == "x2"


# -- what is kept --------------------------------------------------------------------------


def reachable(root: object) -> Iterable[object]:
    """Everything that an object leads to, but for classes and modules."""
    seen, waiting = {id(root): root}, [root]
    while waiting:
        for each in gc.get_referents(waiting.pop()):
            if id(each) not in seen and not isinstance(each, type) and not callable(each):
                seen[id(each)] = each
                waiting.append(each)
    return seen.values()


def test_numbers_and_names_of_ours_are_all_that_is_kept() -> None:
    rollout = Rollout()
    for turns in range(12):
        rollout.says(talk(turns), model="a model", address="10.0.0.1")
    rollout.says([HELLO, IMAGE, THOUGHT])
    texts = {each for each in reachable(rollout.known) if isinstance(each, str | bytes)}
    ours = {f"x{number}" for number in range(1, 14)} | {"r1", "10.0.0.1", b"secret"}
    fields = {name for name in texts if isinstance(name, str) and hasattr(rollout.known, name)}
    assert {"x12", "r1", "10.0.0.1"} <= texts  # the search looks there
    assert texts - ours - fields == set()


def test_digests_say_nothing_to_another_process_or_rollout() -> None:
    kept = []
    for known, name in ((Conversations(b"secret"), "r1"), (Conversations(b"another"), "r1")):
        kept.append(numbers(known, name))
    kept.append(numbers(Conversations(b"secret"), "r2"))
    for place, one in enumerate(kept):
        for other in kept[place + 1 :]:
            assert not one & other


def numbers(known: Conversations, name: str) -> set[int]:
    rollout = Rollout(known, name)
    for turns in range(3):
        rollout.says(talk(turns))
    (conversation,) = known._rollouts[name]
    return {conversation.first, conversation.last, conversation.begun, conversation.middle}


def test_it_is_bounded() -> None:
    known = Conversations(b"secret", rollouts=3, each=2)
    for name in range(10):
        rollout = Rollout(known, f"r{name}")
        for number in range(5):
            rollout.says([{"role": "user", "content": str(number)}])
    assert list(known._rollouts) == ["r7", "r8", "r9"]
    assert all(len(each) == 2 for each in known._rollouts.values())


def test_the_least_recently_used_is_forgotten_first() -> None:
    known = Conversations(b"secret", rollouts=2, each=2)
    first, second = Rollout(known, "r1"), Rollout(known, "r2")
    first.says(talk(1))
    second.says(talk(1))
    first.says([{"role": "user", "content": "another"}])
    assert first.says(talk(2)) == "x1"
    Rollout(known, "r3").says(talk(1))
    assert first.says(talk(3)) == "x3"
    assert second.says(talk(2)) is None
