"""Reference calls: the proxy's own plain questions, asked beside a failure to learn whose it was.

`classifier.reference_rules` says what is asked, when, and what the answers prove.
"""

from __future__ import annotations

from enum import StrEnum

from classifier.declarations import record
from classifier.verdicts import Comparison, Subcategory, VerdictReference

REFERENCE = "_reference"
"""The reserved id under which reference calls are recorded; no rollout has it."""


WORDLESS = "wordless"
"""The reason of a reference call that came whole, and neither output nor an error with it."""
OTHER_WORDS = "other_words"
"""The reason of one that said something, and not the word that it was asked for."""
CUT_SHORT = "cut_short"
"""The same, where a limit of tokens ended it."""


class NotRun(StrEnum):
    """The reason why a series asked nothing."""

    NO_KEY = "no_key"  # the proxy holds no key for the upstream
    OFF = "off"  # reference_calls = false
    INJECTED = "injected"  # the failure was injected by the runner
    MEDIA = "media"  # images, audio, video: there is no plain question
    TOO_DEAR = "too_dear"  # 16 tokens of the model cost over $0.01
    WEBSOCKET_ONLY = "websocket_only"  # until 0.3: the lane was only answered over a WebSocket
    NO_FORM = "no_form"  # its API, and what was answered beside it, have no plain question
    RETRY_AFTER = "retry_after"  # a wait that the provider stated still runs
    LIMIT = "limit"  # too many series, of the lane or of the service
    STOPPED = "stopped"  # the server stopped
    FAILED_TO_RUN = "failed_to_run"


WITHOUT_KEY = frozenset((NotRun.NO_KEY, NotRun.OFF))
"""The reasons for which an operator runs no reference at all."""
UNASKABLE = WITHOUT_KEY | {NotRun.NO_FORM, NotRun.WEBSOCKET_ONLY}
"""The reasons for which other rollouts' calls decide: nobody could ask, whatever failed."""


class AskedBy(StrEnum):
    """The way in which a question was asked."""

    OWN = "own"  # as the failed call was
    USUAL = "usual"  # as others ask, none of whom asks as the failed call did
    SHARED = "shared"  # as others ask, of whom some ask as the failed call did too


@record
class ReferenceCall:
    """The result of one reference call; times in seconds since the epoch.

    ``answered`` is None where the call is no evidence: answered from a cache, by another model or
    a fallback, ended by a server that stopped, or without the word that was asked for (`WORDLESS`,
    `OTHER_WORDS`, `CUT_SHORT`). ``explained``: the question itself was refused, by an explained
    rejection, as a wrong endpoint or with 405. ``timed_out``: it ended in silence or a time-out.
    ``exchange_id`` is that of its exchange under ``_reference``. ``model``: the name that it asked
    for, if that is not its series'.
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
    asked_by: AskedBy = AskedBy.OWN
    model: str | None = None

    @property
    def duration_s(self) -> float:
        """The seconds that it took."""
        return self.ended_at - self.started_at


@record
class ReferenceSeries:
    """A series of at most three reference calls on one lane, which ends with the first that fails.

    If none by the failed call's own way was answered, up to three by the usual way follow; ``way``
    is a digest of both. ``ended_at`` is None while it runs. ``not_run`` is why nothing was asked;
    with ``retry_after``, ``calls`` are those of the earlier series that was told to wait, if there
    was one.
    """

    id: str
    upstream: str
    model: str | None
    api: str | None
    started_at: float
    ended_at: float | None = None
    calls: tuple[ReferenceCall, ...] = ()
    not_run: NotRun | None = None
    way: str | None = None

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
