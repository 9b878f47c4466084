"""Each failed call is put on whoever failed it, by the first row that holds."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from classifier.attribution import ALWAYS, UNTRUSTED_ROWS, Attributed, attribute
from classifier.evidence import Evidence
from classifier.records import USED_UP, Cause, Neighbours, RolloutRecord
from classifier.references import UNASKABLE, NotRun
from classifier.rules import judge
from classifier.verdicts import EVIDENCE, AttributedTo, Health, Policy, Subcategory
from tests.builders import asked, calls, rollout, series
from tests.tables import each, lines

AGENT, OPERATOR, PROVIDER = AttributedTo.AGENT, AttributedTo.OPERATOR, AttributedTo.PROVIDER
UNKNOWN = AttributedTo.UNKNOWN
BOUND: dict[str, Any] = {"model": "gpt-5", "upstream": "openai"}
STARTS = " ".join(f"429[{n / 10:.1f}-{n / 10 + 0.05:.2f}]" for n in range(20))
HELD = " ".join(f"200[{n / 100}-30]" for n in range(11))

# Calls, what is said of their rollout, and the row of its last failure under each policy; or a
# series beside that, whose failure it makes it, by which row, and if others corroborate it.
_LINES = lines(Path(__file__).with_name("attributed.jsonl"))
ROWS = [row for row in _LINES if "series" not in row]
BY_REFERENCE = [row for row in _LINES if "series" in row]


def whose(record: RolloutRecord, agents: str = "trusted") -> Attributed:
    """Whose the last failure of the record was."""
    found = attribute(Evidence.of(replace(record, agents=agents), EVIDENCE))
    return list(found.values())[-1]


def test_a_failure_is_put_on_the_first_row_that_holds() -> None:
    for row in ROWS:
        said = dict(row.get("said", {}))
        said["fallbacks"] = tuple(said.get("fallbacks", ()))
        seen = rollout(row["calls"], **said)
        assert whose(seen).row == row["trusted"], row
        assert whose(seen, "untrusted").row == row["untrusted"], row


def test_no_answer_to_others_makes_a_registered_models_404_the_agents() -> None:
    near = {"x0": Neighbours(answered=3, respelled=True)}
    for registered, named, row in (
        ("anthropic/claude-opus-4-5", "claude-opus-4-5-20251101", "account"),
        ("claude-opus-4-5", "claude-opus-4-5", "account"),
        (None, "claude-opus-4-5-20251101", "respelled"),
    ):
        seen = replace(rollout(f"404@{named}", model=registered), neighbours=near)
        assert whose(seen).row == row, (registered, named)


def test_every_row_is_reached() -> None:
    reached = {row[agents] for row in ROWS for agents in ("trusted", "untrusted")}
    assert {row.name for row in ALWAYS} - {"own_resources", "broken_filter"} <= reached
    assert {row.name for row in UNTRUSTED_ROWS} - {"closed_on"} <= reached
    asked_about = {row["row"] for row in BY_REFERENCE}
    assert {"request", "partly", "inconclusive"} <= asked_about


def test_the_reference_decides_what_no_row_does() -> None:
    for row in BY_REFERENCE:
        seen = rollout(row["calls"])
        failed = [x.id for x in seen.exchanges if x.failed][-1]
        seen = replace(seen, references={failed: series(row["series"])})
        found = whose(seen, "untrusted")
        assert (found.to, found.row, found.corroborated) == (
            row["to"], row["row"], row["corroborated"],
        ), row  # fmt: skip


def test_the_reference_changes_nothing_where_agents_are_trusted() -> None:
    for row in BY_REFERENCE:
        seen = rollout(row["calls"])
        assert whose(asked(seen, row["series"])) == whose(seen), row


def test_what_fails_between_a_streaks_ends_has_the_series_of_its_beginning() -> None:
    seen = replace(rollout("200 503*3"), agents="untrusted")
    seen = replace(seen, references={"x1": series("ok"), "x3": series("provider_error")})
    found = attribute(Evidence.of(seen, EVIDENCE))
    assert [found[call].to for call in ("x1", "x2", "x3")] == [AGENT, AGENT, PROVIDER]


def test_two_others_struck_at_once_make_it_a_provider_that_is_partly_down() -> None:
    for struck, row in ((1, "request"), (2, "partly")):
        seen = replace(
            asked(rollout("200 503"), "ok ok ok"), neighbours={"x1": Neighbours(at_once=struck)}
        )
        assert whose(seen, "untrusted").row == row


def test_a_rate_limit_is_the_agents_that_crowds_its_lane() -> None:
    for text, others, row in (
        (f"{HELD} 429[20-21]", 11, "crowded"),
        (f"{HELD} 429[20-21]", 12, "inconclusive"),
        ("200[0-1] 429[20-21]", 0, "inconclusive"),
    ):
        seen = rollout(text)
        last = seen.exchanges[-1].id
        seen = replace(
            seen, references={last: series("ok ok ok")}, neighbours={last: Neighbours(open=others)}
        )
        found = attribute(Evidence.of(replace(seen, agents="untrusted"), EVIDENCE))
        assert found[last].row == row, (text, others)


def test_a_rate_limit_is_the_providers_that_says_that_nothing_was_left() -> None:
    for text, row in (("200 429", "used_up"), (f"{HELD} 429[20-21]", "crowded")):
        seen = asked(rollout(text), "ok ok ok")
        last = seen.exchanges[-1]
        assert last.cause is not None
        said = replace(last, cause=replace(last.cause, reason=USED_UP))
        seen = replace(seen, exchanges=(*seen.exchanges[:-1], said))
        found = whose(seen, "untrusted")
        assert (found.to, found.row) == (PROVIDER if row == "used_up" else AGENT, row)


def test_the_very_request_that_was_answered_before_is_a_provider_that_is_partly_down() -> None:
    seen = rollout("200 503")
    before, last = seen.exchanges

    def whose_if(**other: Any) -> tuple[AttributedTo, str]:
        same = (
            replace(before, request_digest="body"),
            replace(last, **{"request_digest": "body", **other}),
        )
        known = replace(seen, exchanges=same, references={last.id: series("ok ok ok")})
        found = whose(known, "untrusted")
        return found.to, found.row

    assert whose_if() == (PROVIDER, "partly")
    assert whose_if(request_digest="other") == (AGENT, "request")
    assert whose_if(selector_digest="other") == (AGENT, "other_selection")


def test_without_a_reference_two_others_that_failed_alike_are_the_proof() -> None:
    for not_run in UNASKABLE:
        alone = asked(rollout("200 503"), not_run=not_run)
        assert whose(alone, "untrusted").to is AGENT
        for near, to in (
            (Neighbours(alike=1), AGENT),
            (Neighbours(alike=2), PROVIDER),
            (Neighbours(alike=2, answered=1), PROVIDER),
            (Neighbours(alike=2, answered=1, answered_between=True), AGENT),
        ):
            assert whose(replace(alone, neighbours={"x1": near}), "untrusted").to is to, near


def test_what_could_not_be_asked_though_a_key_is_there_is_nobodys() -> None:
    for not_run in set(NotRun) - UNASKABLE - {NotRun.INJECTED}:
        assert whose(asked(rollout("200 503"), not_run=not_run), "untrusted").to is UNKNOWN


def test_what_the_runner_injected_is_no_agents_own() -> None:
    for not_run in (None, NotRun.INJECTED):
        seen = rollout("200 503")
        failed = replace(seen.exchanges[1], injected=True)
        seen = replace(seen, exchanges=(seen.exchanges[0], failed))
        seen = seen if not_run is None else asked(seen, not_run=not_run)
        injected = whose(seen, "untrusted")
        assert (injected.to, injected.row) == (PROVIDER, "rest")


def test_while_a_reference_is_asked_it_is_nobodys() -> None:
    waiting = whose(asked(rollout("200 503"), running=True), "untrusted")
    assert (waiting.to, waiting.row) == (UNKNOWN, "pending")


def test_a_limits_own_stated_wait_is_no_proof() -> None:
    waiting = whose(asked(rollout("200 429~30"), not_run=NotRun.RETRY_AFTER), "untrusted")
    assert (waiting.to, waiting.corroborated) == (UNKNOWN, None)
    burst = whose(asked(rollout(STARTS), not_run=NotRun.RETRY_AFTER), "untrusted")
    assert burst.to is AGENT


def test_a_filter_that_refuses_plain_questions_is_the_providers_whoever_the_agent_is() -> None:
    seen = rollout("200+tool 400+content_filter")
    broken = replace(seen, references={"x1": series("filtered")})
    for agents in ("trusted", "untrusted"):
        found = whose(broken, agents)
        assert (found.to, found.row, found.corroborated) == (PROVIDER, "broken_filter", True)
        verdict = judge(replace(broken, agents=agents))
        assert (verdict.health, verdict.scoreable) == (Health.API_ERROR, "no")
        well = replace(seen, agents=agents, references={"x1": series("ok ok ok")})
        assert judge(well).scoreable == "yes"


def test_a_limit_of_another_name_than_the_one_that_answers_is_its_agents() -> None:
    seen = rollout("200@gpt-5:free 429@gpt-5:free", **BOUND)
    found = whose(replace(seen, references={"x1": series("ok ok ok")}), "untrusted")
    assert (found.to, found.row) == (AGENT, "other_spelling")


def test_a_limit_of_a_tier_that_only_its_agent_asks_for_is_its_agents() -> None:
    seen = rollout("200 429")
    for words, to in (("rate_limit u:ok u:ok u:ok", AGENT), ("rate_limit s:ok", PROVIDER)):
        assert whose(replace(seen, references={"x1": series(words)}), "untrusted").to is to, words


@each("code", [1003, 1007, 1008, 1009])
def test_a_close_that_answers_what_was_sent_is_an_untrusted_agents_own(code: int) -> None:
    record = rollout("200@gpt-5 net@gpt-5", **BOUND)
    rejected = Cause(
        subcategory=Subcategory.REJECTED_REQUEST, transient=False, rule=f"websocket.close_{code}"
    )
    exchanges = (record.exchanges[0], replace(record.exchanges[1], cause=rejected))
    for agents, to in (("trusted", PROVIDER), ("untrusted", AGENT)):
        assert whose(replace(record, exchanges=exchanges), agents).to is to


def test_rows_name_agent_operator_and_provider() -> None:
    for text, to in (("401", OPERATOR), ("400+context_length", OPERATOR), ("400", PROVIDER),
                     ("500", PROVIDER), ("429", PROVIDER), ("401+twice", AGENT)):  # fmt: skip
        assert whose(rollout(text)).to is to, text


def test_a_burst_is_ones_own_only_where_it_is_most_of_the_lanes() -> None:
    seen = rollout(STARTS)
    for others, row in ((4, "own_burst"), (5, "no_reference")):
        near = {x.id: Neighbours(starts=others) for x in seen.exchanges}
        assert whose(replace(seen, neighbours=near), "untrusted").row == row
    fewer = rollout(exchanges=calls(STARTS)[1:], agents="untrusted")
    found = attribute(Evidence.of(fewer, EVIDENCE))
    assert {each.row for each in found.values()} == {"no_reference"}


def test_a_rollout_without_failures_attributes_nothing() -> None:
    assert attribute(Evidence.of(rollout("200 left"), Policy(agents="untrusted"))) == {}


def test_what_others_got_is_told_with_each_failure() -> None:
    seen = rollout("401 401")
    near = {"x0": Neighbours(alike=2), "x1": Neighbours(answered=1)}
    found = attribute(Evidence.of(replace(seen, neighbours=near), EVIDENCE))
    assert [each.corroborated for each in found.values()] == [True, False]
