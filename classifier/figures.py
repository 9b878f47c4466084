"""The figures of a batch: name, unit, definition, value and list of each, in one table.

Whatever shows a figure takes it from here: REST, pages, commands, the card, the glossary.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from functools import cache, partial
from operator import attrgetter
from typing import Any, TypeAlias

from classifier.batch_summary import ScoredBatch, tally
from classifier.batches import RewardSpan
from classifier.repeat_counts import Counts
from classifier.verdicts import OWN_FAILURES, Health, Subcategory

Query: TypeAlias = tuple[tuple[str, str], ...]
"""Parameters of the list of rollouts, beside the batch (docs/reference/lists.md)."""


class FigureUnit(StrEnum):
    """The unit of a figure: what it counts, or what it is measured in."""

    REPEATS = "repeats"
    ROLLOUTS = "rollouts"
    CALLS = "calls"
    TOKENS = "tokens"
    DOLLARS = "US dollars"
    SECONDS = "seconds"
    SCORE = "score"
    REWARD = "reward"
    SHARE = "share"


@dataclass(frozen=True, slots=True, kw_only=True)
class CountedBatch:
    """A batch as it stands: its counts, its summary, and the span of its rewards."""

    counts: Counts
    summary: ScoredBatch
    rewards: RewardSpan


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One figure of a batch.

    ``name`` is REST's, with a dot before a field of an object. ``read`` reads its value; None: it
    has that name in the batch's summary. ``note`` is what REST says beside its definition.
    ``listed`` selects the rollouts that it counts, one for each repeat if it counts repeats; None:
    no list has them. A figure that is an object of counts has a list for each of its names by
    ``listed_by``, None for one without. ``term`` is its word in the glossary.
    """

    name: str
    unit: FigureUnit
    definition: str
    read: Callable[[CountedBatch], Any] | None = None
    note: str = ""
    listed: Query | None = None
    listed_by: Callable[[str], Query | None] | None = None
    term: str | None = None

    @property
    def description(self) -> str:
        """The definition and the note, as REST's fields are described."""
        return f"{self.definition}; {self.note}" if self.note else self.definition

    def value(self, batch: CountedBatch) -> Any:
        """Return its value in a batch."""
        read = self.read or _of_summary(self.name)
        return read(batch)

    def query(self, part: str | None = None) -> Query | None:
        """Return the list of the rollouts that the figure counts, or one of its parts."""
        if part is None or self.listed_by is None:
            return self.listed
        return self.listed_by(part)


@cache
def _of_summary(name: str) -> Callable[[CountedBatch], Any]:
    return attrgetter(f"summary.{name}")


def _of_scores(name: str) -> Callable[[CountedBatch], Any]:
    return attrgetter(f"summary.scores.{name}")


def _count(name: str) -> Callable[[CountedBatch], int]:
    return lambda batch: batch.counts[name]


def _pass_at(batch: CountedBatch) -> list[dict[str, Any]] | None:
    estimates = batch.summary.scores.pass_at
    return None if estimates is None else [asdict(each) for each in estimates]


def _by(parameter: str) -> Callable[[str], Query]:
    return lambda name: ((parameter, name),)


def _taken_by(flag: str, cause: str) -> Query | None:
    """Return the list of the false zeros or ones of a cause; None for a check: others are worse."""
    taken = (flag, "true")
    if cause in set(Subcategory):
        return taken, ("health", Health.API_ERROR.value), ("subcategory", cause)
    if cause == "suspected":
        return taken, ("health", Health.SUSPECTED_API_ERROR.value)
    return (taken, ("health", cause)) if cause == Health.NOT_JUDGED else None


def _verdicts_by(name: str) -> Query | None:
    """Return the list of one class of verdicts; None if no filter takes the others from it."""
    if name in set(Subcategory):
        return ("health", Health.API_ERROR.value), ("subcategory", name)
    if name in (Health.SUSPECTED_API_ERROR, Health.UNDECIDED):
        return (("health", name),)
    if name == Health.NOT_JUDGED:
        return ("health", name), ("skipped", "false")
    return (("rule", name),) if name == OWN_FAILURES else None


_COUNTED: Query = (("superseded", "false"),)
_MEASURED: Query = (*_COUNTED, ("measured", "true"))

# Each planned repeat is in exactly one of them.
_PARTS: Mapping[str, tuple[str, str]] = {
    "measured": ("repeats that a model answered, and whose reward counts", ""),
    "own_failures": ("repeats that count though no model answered, by the agent's own doing", ""),
    "not_measured": ("repeats whose reward does not count, by cause", "as of `zeros`"),
    "not_scored": (
        "repeats whose reward would count, by the reason for which they have none",
        "`no_reward`, or `score_key`: rewards were reported, and none is known to be the score",
    ),
    "skipped": ("repeats that an open breaker did not admit", ""),
    "running": ("repeats that have not ended", ""),
    "never_started": ("planned repeats of which no rollout was registered", ""),
}

_TABLE = (
    # --- rollouts ---
    Figure(
        name="rollouts", unit=FigureUnit.ROLLOUTS, listed=(),
        definition="rollouts, each attempt at each repeat", read=_count("rollouts"),
    ),
    Figure(
        name="running", unit=FigureUnit.ROLLOUTS, listed=(("running", "true"),),
        definition="rollouts that have not ended: their verdict can change, or there is none yet",
        read=_count("running"),
    ),
    Figure(
        name="pending", unit=FigureUnit.ROLLOUTS,
        definition="of `running`, those with a verdict, which can change",
    ),
    Figure(
        name="skipped", unit=FigureUnit.ROLLOUTS, listed=(("skipped", "true"),),
        definition="rollouts that an open breaker did not admit", read=_count("skipped"),
    ),
    Figure(
        name="verdicts", unit=FigureUnit.ROLLOUTS, listed_by=_verdicts_by,
        definition="rollouts by verdict, each in one class",
        note="`healthy`, `own_failures`, the cause of a failure, `suspected_api_error`, "
        "`undecided`, `not_judged`, `skipped`, `unjudged`",
        read=lambda batch: tally(batch.counts, "verdict"),
    ),
    Figure(
        name="health", unit=FigureUnit.ROLLOUTS, listed_by=_by("health"),
        definition="judged rollouts by health",
    ),
    Figure(
        name="subcategory", unit=FigureUnit.ROLLOUTS, listed_by=_by("subcategory"),
        definition="rollouts that failed, by cause",
    ),
    Figure(
        name="fingerprint", unit=FigureUnit.ROLLOUTS, listed_by=_by("fingerprint"),
        definition="rollouts that failed, by cause and status",
    ),
    Figure(
        name="diagnostics", unit=FigureUnit.ROLLOUTS,
        definition="rollouts by the field of a result that says what is wrong",
    ),
    Figure(
        name="validity", unit=FigureUnit.ROLLOUTS, listed_by=_by("validity"),
        definition="rollouts by the worst level of what was found beside health",
    ),
    Figure(
        name="validity_checks", unit=FigureUnit.ROLLOUTS, listed_by=_by("validity"),
        definition="rollouts by the check that found something",
    ),
    Figure(
        name="unearned", unit=FigureUnit.ROLLOUTS, listed=(("unearned", "true"),),
        definition="rollouts with a reward above the least and no answered call",
    ),
    # --- repeats ---
    Figure(
        name="repeats_planned", unit=FigureUnit.REPEATS, term="planned",
        definition="repeats that tasks were registered for, else those that they have",
        note="a rollout without a task is one by itself; the sum of `parts`",
        read=attrgetter("summary.parts.planned"),
    ),
    Figure(
        name="never_started", unit=FigureUnit.REPEATS, term="never started",
        definition="planned repeats of which no rollout was registered",
        read=attrgetter("summary.parts.never_started"),
    ),
    *(
        Figure(
            name=f"parts.{name}", unit=FigureUnit.REPEATS, definition=definition,
            note=note,
        )
        for name, (definition, note) in _PARTS.items()
    ),
    Figure(
        name="total", unit=FigureUnit.REPEATS,
        definition="the planned repeats, by an older name", read=_of_scores("total"),
    ),
    Figure(
        name="scoreable", unit=FigureUnit.REPEATS, listed=(*_COUNTED, ("scoreable", "yes")),
        definition="repeats whose reward counts, if they have one",
        read=_of_scores("scoreable"),
    ),
    Figure(
        name="scored", unit=FigureUnit.REPEATS, listed=_MEASURED, term="measured",
        definition="repeats with a reward that counts", read=_of_scores("scored"),
    ),
    Figure(
        name="own_failures", unit=FigureUnit.REPEATS, term="own failures",
        listed=(*_MEASURED, ("rule", OWN_FAILURES)),
        definition="repeats that count though no model answered, by the agent's own doing",
    ),
    Figure(
        name="coverage", unit=FigureUnit.SHARE, term="coverage",
        definition="share of the planned repeats that were measured",
        read=_of_scores("coverage"),
    ),
    Figure(
        name="retried", unit=FigureUnit.REPEATS,
        definition="repeats with more than one attempt", read=_of_scores("retried"),
    ),
    Figure(
        name="retried_after_score_total", unit=FigureUnit.REPEATS,
        definition="repeats that were run again although they had a score: the first one counts",
        read=_count("picked"),
    ),
    Figure(
        name="retry_total", unit=FigureUnit.ROLLOUTS,
        definition="rollouts whose verdict advises to run them again, and that were not yet",
        read=_count("retry"),
    ),
    Figure(
        name="zeros.reported", unit=FigureUnit.REPEATS, term="zeros",
        definition="repeats measured as 0, or not measured and reported as 0",
    ),
    Figure(
        name="zeros.not_measured", unit=FigureUnit.REPEATS, listed=(("false_zero", "true"),),
        term="false zero",
        definition="of the zeros, those not measured",
    ),
    Figure(
        name="zeros.by_cause", unit=FigureUnit.REPEATS, listed_by=partial(_taken_by, "false_zero"),
        definition="of `not_measured`, how many by each cause",
        note="or `suspected`, the check that found something, `excluded` by a policy, or health",
    ),
    Figure(
        name="ones.reported", unit=FigureUnit.REPEATS,
        definition="repeats measured above 0, or not measured and reported above 0",
    ),
    Figure(
        name="ones.not_measured", unit=FigureUnit.REPEATS, listed=(("false_one", "true"),),
        definition="of them, those not measured",
    ),
    Figure(
        name="ones.by_cause", unit=FigureUnit.REPEATS, listed_by=partial(_taken_by, "false_one"),
        definition="of `not_measured`, how many by each cause", note="as of `zeros`",
    ),
    # --- scores ---
    Figure(
        name="score_effective", unit=FigureUnit.SCORE, term="score",
        definition="mean reward over what was measured", read=_of_scores("score_effective"),
    ),
    Figure(
        name="score_ci", unit=FigureUnit.SCORE, term="score",
        definition="its 95 % interval over tasks: Wilson's for rewards of 0 or 1, else Student's t",
        note="null if nothing tells the spread",
        read=_of_scores("score_ci"),
    ),
    Figure(
        name="score_reported", unit=FigureUnit.SCORE, term="reported",
        definition="mean of the rewards that the runner reported, counted or not: what a harness "
        "prints without truezero",
        note="over repeats that have one; of several attempts the last one",
        read=_of_scores("score_reported"),
    ),
    Figure(
        name="score_all", unit=FigureUnit.SCORE, term="failures as 0",
        definition="mean reward if each planned repeat that was not measured is 0",
        read=_of_scores("score_all"),
    ),
    Figure(
        name="score_worst", unit=FigureUnit.SCORE, term="least – most",
        definition="score over all repeats if each that was not measured were 0, or the least of "
        "`reward_range`",
        note="null if a reward lies outside of 0 to 1 and no range was registered",
        read=_of_scores("score_worst"),
    ),
    Figure(
        name="score_best", unit=FigureUnit.SCORE, term="least – most",
        definition="the same with 1, or the greatest",
        note="null likewise",
        read=_of_scores("score_best"),
    ),
    Figure(
        name="score_first", unit=FigureUnit.SCORE,
        definition="mean reward over first attempts", read=_of_scores("score_first"),
    ),
    Figure(
        name="score_retried", unit=FigureUnit.SCORE,
        definition="mean reward over the repeats that a later attempt filled",
        read=_of_scores("score_retried"),
    ),
    Figure(
        name="pass_at", unit=FigureUnit.SHARE, term="pass@k",
        definition="chance that one of k repeats of a task passes",
        note="for 1, 2, 4, … and the most that a task has; null without repeats, or if rewards are "
        "not 0 or 1",
        read=_pass_at,
    ),
    Figure(
        name="reward_least", unit=FigureUnit.REWARD,
        definition="least reward that counts", read=attrgetter("rewards.least"),
    ),
    Figure(
        name="reward_greatest", unit=FigureUnit.REWARD,
        definition="greatest reward that counts", read=attrgetter("rewards.greatest"),
    ),
    Figure(
        name="reward_range", unit=FigureUnit.REWARD,
        definition="least and greatest reward, as registered",
        read=attrgetter("rewards.registered"),
    ),
    # --- calls, tokens, money, time ---
    Figure(
        name="calls", unit=FigureUnit.CALLS,
        definition="the agents' calls that used tokens: what the sums of tokens and cost are of",
    ),
    Figure(
        name="tokens_known_calls", unit=FigureUnit.CALLS,
        definition="of `calls`, those with token counts",
    ),
    Figure(
        name="cost_known_calls", unit=FigureUnit.CALLS,
        definition="of `calls`, those whose cost is in `cost_usd`",
    ),
    Figure(
        name="input_tokens", unit=FigureUnit.TOKENS,
        definition="tokens read by models, of `tokens_known_calls`",
    ),
    Figure(
        name="output_tokens", unit=FigureUnit.TOKENS,
        definition="tokens written by models, of `tokens_known_calls`",
    ),
    Figure(
        name="total_tokens", unit=FigureUnit.TOKENS,
        definition="both, or as the provider says, of `tokens_known_calls`",
    ),
    Figure(
        name="cost_usd", unit=FigureUnit.DOLLARS,
        definition="US dollars for calls of every role, of `cost_known_calls`",
    ),
    Figure(
        name="lost_s", unit=FigureUnit.SECONDS, term="lost to failures",
        definition="time waited for a failed call or its next try, while none was answered or "
        "waited at the proxy",
        note="null: unknown",
    ),
    Figure(
        name="held_s", unit=FigureUnit.SECONDS, term="waiting at the proxy",
        definition="time waited for a turn or a limit, while no call was answered",
        note="null if none has to",
    ),
)  # fmt: skip

FIGURES: Mapping[str, Figure] = {figure.name: figure for figure in _TABLE}


def figures_of(batch: CountedBatch, names: Iterable[str] = FIGURES) -> dict[str, Any]:
    """Return the values of a batch's figures by name; what stands before a dot is an object."""
    values: dict[str, Any] = {}
    for name in names:
        outer, _, inner = name.partition(".")
        value = FIGURES[name].value(batch)
        if inner:
            values.setdefault(outer, {})[inner] = value
        else:
            values[outer] = value
    return values
