"""Each failed call is put on whoever failed it, by the first row that holds."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from classifier.attribution import ALWAYS, UNTRUSTED_ROWS, Attributed, attribute
from classifier.evidence import Evidence
from classifier.records import Cause, Neighbours
from classifier.verdicts import EVIDENCE, AttributedTo, Subcategory
from tests.builders import calls, rollout

AGENT, OPERATOR, PROVIDER = AttributedTo.AGENT, AttributedTo.OPERATOR, AttributedTo.PROVIDER
BOUND: dict[str, Any] = {"model": "gpt-5", "upstream": "openai"}
STARTS = " ".join(f"429[{n / 10:.1f}-{n / 10 + 0.05:.2f}]" for n in range(20))

# The calls, what is registered, the row of the last failure under each policy.
ROWS: tuple[tuple[str, dict[str, Any], str, str], ...] = (
    ("200 401", {}, "account", "account"),
    ("402", {}, "account", "account"),
    ("404", {}, "account", "account"),
    ("400+context_length", {}, "never_accepted", "unproven"),
    ("200 400+context_length", {}, "explained_rejection", "explained_rejection"),
    ("200@a 400+context_length@b", {}, "never_accepted", "other_lane"),
    ("200 400", {}, "rest", "unproven"),
    ("200 500", {}, "rest", "unproven"),
    ("200 503", {}, "rest", "rest"),
    ("200 net", {}, "rest", "rest"),
    ("400+content_filter", {}, "never_accepted", "filtered"),
    ("net", BOUND, "rest", "rest"),
    ("net", {}, "rest", "unproven"),
    ("200 429", {}, "rest", "unproven"),
    (STARTS, {}, "rest", "own_burst"),
    ("200 stalled", {}, "rest", "hung_up"),
    ("200 503%down", BOUND, "outside_binding", "outside_binding"),
    ("200 404@nope", BOUND, "outside_binding", "outside_binding"),
    ("200 404@gpt-5-2025-08-07", BOUND, "respelled", "respelled"),
    ("200@gpt-5-2025-08-07 404@gpt-5-2025-08-07", BOUND, "account", "account"),
    ("404@gpt-5-2025-08-07", BOUND, "account", "account"),
    ("200@GPT-5 404", {}, "respelled", "respelled"),
    ("200 401@gpt-5-2025-08-07", BOUND, "account", "account"),  # a key's, however it is spelled
    ("200@house>gpt-5 404@house", {"model": "gpt-5"}, "account", "account"),
    ("404@o5", {"model": "gpt-5", "fallbacks": ("o5",)}, "account", "account"),
    ("404@nope", BOUND, "account", "unproven"),
    ("503%down", BOUND, "rest", "unproven"),
    ("200 401+twice", {}, "model_ambiguous", "model_ambiguous"),
    ("200 408+held", {}, "withheld", "withheld"),
    ("left+held", {}, "withheld", "withheld"),
    ("200 401+held", {}, "account", "account"),
    ("200 503+held", {}, "rest", "unproven"),
    ("200 401+override", {}, "account", "own_key"),
    ("200#a 401#b", {}, "account", "other_key"),
    ("401#b 200#a", {}, "account", "other_key"),
    ("200 500%up", {}, "rest", "other_lane"),
    ("200 401+beta", {}, "account", "other_selection"),
    ("200+beta 401+beta", {}, "account", "unproven"),
    ("200+beta 401+operators+beta", {}, "account", "account"),
    ("401+added", {}, "account", "account"),
    ("401+added+beta", {}, "account", "unproven"),
)  # fmt: skip


def attributed(text: str, agents: str = "trusted", **said: Any) -> Attributed:
    """Whose the last failure in the text was."""
    found = attribute(Evidence.of(rollout(text, **said), EVIDENCE), agents=agents)
    return list(found.values())[-1]


def test_a_failure_is_put_on_the_first_row_that_holds() -> None:
    for text, said, trusted, untrusted in ROWS:
        assert attributed(text, **said).row == trusted, text
        assert attributed(text, "untrusted", **said).row == untrusted, text


def test_every_row_is_reached() -> None:
    reached = {row for _, _, *rows in ROWS for row in rows}
    assert {row for row, *_ in ALWAYS} - {"own_resources"} <= reached
    assert {row for row, _ in UNTRUSTED_ROWS} - {"poison_request", "closed_on"} <= reached


@pytest.mark.parametrize("code", [1003, 1007, 1008, 1009])
def test_a_close_that_answers_what_was_sent_is_an_untrusted_agents_own(code: int) -> None:
    record = rollout("200@gpt-5 net@gpt-5", **BOUND)
    rejected = Cause(
        subcategory=Subcategory.REJECTED_REQUEST, transient=False, rule=f"websocket.close_{code}"
    )
    exchanges = (record.exchanges[0], replace(record.exchanges[1], cause=rejected))
    facts = Evidence.of(replace(record, exchanges=exchanges), EVIDENCE)
    for agents, to in (("trusted", PROVIDER), ("untrusted", AGENT)):
        (found,) = attribute(facts, agents=agents).values()
        assert found.to is to


def test_rows_name_agent_operator_and_provider() -> None:
    for text, to in (("401", OPERATOR), ("400+context_length", OPERATOR), ("400", PROVIDER),
                     ("500", PROVIDER), ("429", PROVIDER), ("401+twice", AGENT)):  # fmt: skip
        assert attributed(text).to is to, text


def test_a_burst_is_ones_own_only_where_it_is_most_of_the_lanes() -> None:
    seen = rollout(STARTS)
    for others, row in ((4, "own_burst"), (5, "unproven")):
        near = {x.id: Neighbours(starts=others) for x in seen.exchanges}
        facts = Evidence.of(replace(seen, neighbours=near), EVIDENCE)
        assert list(attribute(facts, agents="untrusted").values())[-1].row == row
    fewer = rollout(exchanges=calls(STARTS)[1:])
    found = attribute(Evidence.of(fewer, EVIDENCE), agents="untrusted")
    assert {each.row for each in found.values()} == {"unproven"}


def test_a_rollout_without_failures_attributes_nothing() -> None:
    assert attribute(Evidence.of(rollout("200 left"), EVIDENCE), agents="untrusted") == {}


def test_what_others_got_is_told_with_each_failure() -> None:
    seen = rollout("401 401")
    near = {"x0": Neighbours(alike=2), "x1": Neighbours(answered=1)}
    found = attribute(Evidence.of(replace(seen, neighbours=near), EVIDENCE), agents="trusted")
    assert [each.corroborated for each in found.values()] == [True, False]
