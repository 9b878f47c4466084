"""Reference calls: the proxy's own plain questions, asked beside a failure to learn whose it was.

docs/concepts/judging.md, "The reference call", says when they are asked and what they prove.
"""

from __future__ import annotations

from enum import StrEnum

from classifier.declarations import record
from classifier.verdicts import Comparison, Subcategory, VerdictReference

REFERENCE = "_reference"
"""The reserved id under which reference calls are recorded; no rollout has it."""


WORDLESS = "wordless"
"""The reason of a reference call that came whole, and neither output nor an error with it."""


class NotRun(StrEnum):
    """The reason why a series asked nothing."""

    NO_KEY = "no_key"  # the proxy holds no key for the upstream
    OFF = "off"  # reference_calls = false
    INJECTED = "injected"  # the failure was injected by the runner
    MEDIA = "media"  # images, audio, video: there is no plain question
    TOO_DEAR = "too_dear"  # 16 tokens of the model cost over $0.01
    WEBSOCKET_ONLY = "websocket_only"  # the lane was only ever answered over a WebSocket
    RETRY_AFTER = "retry_after"  # a wait that the provider stated still runs
    LIMIT = "limit"  # too many series, of the lane or of the service
    STOPPED = "stopped"  # the server stopped
    FAILED_TO_RUN = "failed_to_run"


WITHOUT_KEY = frozenset((NotRun.NO_KEY, NotRun.OFF))
"""The reasons for which an operator runs no reference at all: the fall-back decides."""


@record
class ReferenceCall:
    """The result of one reference call; times in seconds since the epoch.

    ``answered`` is None where the call is no evidence: answered from a cache, by another model or
    a fallback, ended by a server that stopped, or `WORDLESS`. ``explained``: the question itself
    was refused, by an explained rejection, as a wrong endpoint or with 405. ``timed_out``: it ended
    in silence or a time-out. ``exchange_id`` is that of its exchange under ``_reference``.
    """

    exchange_id: str
    started_at: float
    ended_at: float
    answered: bool | None
    subcategory: Subcategory | None = None
    reason: str | None = None
    explained: bool = False
    timed_out: bool = False
    retry_after_s: float | None = None


@record
class ReferenceSeries:
    """A series of at most three reference calls on one lane, which ends with the first that fails.

    ``ended_at`` is None while it runs. ``not_run`` is why nothing was asked; with ``retry_after``,
    ``calls`` are those of the earlier series that was told to wait, if there was one.
    """

    id: str
    upstream: str
    model: str | None
    api: str | None
    started_at: float
    ended_at: float | None = None
    calls: tuple[ReferenceCall, ...] = ()
    not_run: NotRun | None = None

    @property
    def running(self) -> bool:
        """True while it has no end."""
        return self.ended_at is None and self.not_run is None

    def beside(self, exchange_id: str, result: Comparison | None) -> VerdictReference:
        """Return the series as a verdict tells of it, compared with a failed call."""
        return VerdictReference(
            exchange_id=exchange_id,
            series=self.id,
            result=result,
            started_at=self.started_at,
            ended_at=self.ended_at,
            calls=len(self.calls),
            answered=sum(bool(call.answered) for call in self.calls),
            not_run=None if self.not_run is None else self.not_run.value,
        )


@record
class ReferenceNeed:
    """A failed call whose verdict hangs on a reference, and the lane to ask.

    ``api`` is the dialect of the failed call.
    """

    exchange_id: str
    upstream: str
    model: str | None
    api: str


def compare(
    series: ReferenceSeries | None, subcategory: Subcategory | None, *, silent: bool
) -> Comparison | None:
    """Compare a failure with the series that was asked beside it; None while it has no end.

    Arguments:
        subcategory: of the failure; None for a call that its agent gave up.
        silent: the failure was silence or a time-out; one of the reference's counts as alike
            only then.
    """
    if series is None or series.running:
        return None
    if series.not_run in WITHOUT_KEY:
        return Comparison.NO_REFERENCE
    failed = [call for call in series.calls if call.answered is False]
    answered = any(call.answered for call in series.calls)
    if failed:
        if not all(_alike(call, subcategory, silent=silent) for call in failed):
            return Comparison.OTHERWISE
        return Comparison.PARTLY if answered else Comparison.FAILED_ALIKE
    if not answered or any(call.answered is None for call in series.calls):
        return Comparison.OTHERWISE
    return Comparison.ANSWERED


def _alike(call: ReferenceCall, subcategory: Subcategory | None, *, silent: bool) -> bool:
    if call.explained or (call.timed_out and not silent):
        return False
    return call.subcategory is subcategory or (silent and call.timed_out)
