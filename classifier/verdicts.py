"""The verdict, its parts and retry advice, and the policy that it is given under."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from classifier.declarations import IN_MEMORY, record

# Warnings on which sentences about a verdict depend.
PROVOKED_SUSPECTED = "provoked_suspected"  # untrusted agents may have failed their own calls
NO_REFERENCE = "no_reference"  # the proxy could not ask: other rollouts' calls decided
REFERENCE_PENDING = "reference_pending"  # a reference is still to be asked or to end
REFERENCE_PARTLY = "reference_partly"  # the provider failed some and answered others
REFERENCE_INCONCLUSIVE = "reference_inconclusive"  # it says nothing about whose failure it was
CALLS_UNATTRIBUTED = "calls_unattributed"
INJECTED = "faults_injected"
ERROR_BEFORE_ANY_CALL = "error_before_any_call"
ENDED_ON_UNEXPLAINED_REJECTION = "ended_on_unexplained_rejection"
ENDED_ON_UNREAD_ANSWERS = "ended_on_unread_answers"
REFUSED_BY_HARNESS = "refused_by_harness"  # its budget was spent, or its relay refused a call
ENDED_ON_LOST_STATE = "ended_on_lost_state"  # the conversation's own state was rejected
BUDGET = "budget"  # of what excludes a score: a limit refused calls
CANCELLED = "cancelled"  # likewise: the runner was stopped before the end
ANSWERS_UNSEEN = "answers_unseen"  # too long, encoded otherwise or no text
OWN_FAILURES = "own_failures"  # the rule: no model answered, and all failures are the agent's own
NOTHING_READ = "nothing_read"  # no failure is shown, and no output of the model either

RULES_VERSION = "3"  # of the evidence policy; a change of its rules that changes verdicts raises it


class Subcategory(StrEnum):
    """The reason why a call failed (docs/concepts/judging.md)."""

    AUTH = "auth"
    QUOTA = "quota"
    MODEL_NOT_FOUND = "model_not_found"
    RATE_LIMIT = "rate_limit"
    PROVIDER_ERROR = "provider_error"
    REJECTED_REQUEST = "rejected_request"

    @property
    def transient(self) -> bool:
        """True if retrying can help."""
        return self in (Subcategory.RATE_LIMIT, Subcategory.PROVIDER_ERROR)


class Health(StrEnum):
    """The verdict on whether the model could be reached."""

    HEALTHY = "healthy"
    API_ERROR = "api_error"
    SUSPECTED_API_ERROR = "suspected_api_error"
    NOT_JUDGED = "not_judged"
    UNDECIDED = "undecided"

    @property
    def unhealthy(self) -> bool:
        """True if this health removes the rollout's score."""
        return self in (Health.API_ERROR, Health.SUSPECTED_API_ERROR)


class AttributedTo(StrEnum):
    """The party that a failed call is attributed to."""

    AGENT = "agent"
    OPERATOR = "operator"  # the key, the account, the model's name
    PROVIDER = "provider"
    PROXY = "proxy"  # what all rollouts share ran out
    UNKNOWN = "unknown"  # the reference does not say, or has not ended


class Layer(StrEnum):
    """The kind of evidence of a verdict."""

    PROXY_PROVEN = "proxy_proven"
    ZERO_SIGNAL = "zero_signal"
    AUDIT = "audit"  # what a harness wrote down of a run that no proxy saw


class Level(StrEnum):
    """The weight of a validity finding for a measurement, mildest first."""

    INFO = "info"
    SUSPECT = "suspect"
    INVALID = "invalid"


@record
class ValidityFinding:
    """The result of one check of one rollout's calls.

    ``calls`` of the ``of`` calls that the check could look at show it; ``evidence`` are their
    exchange ids, at most ten. ``about`` are short facts behind the sentence, names and numbers.
    """

    check: str
    level: Level
    calls: int
    of: int
    evidence: tuple[str, ...]
    sentence: str
    about: dict[str, object] = field(default_factory=dict)


UNEARNED = "unearned"  # the check
USUAL_OUTPUT = "usual_output_tokens"  # among what its finding is about, where a model answered


def is_unearned(findings: Sequence[ValidityFinding]) -> bool:
    """Return True if a reward was reported, and no call to the model under test was answered."""
    return any(each.check == UNEARNED and USUAL_OUTPUT not in each.about for each in findings)


@record
class Coverage:
    """On how many calls, of those that a check is about, it could look."""

    looked: int
    of: int


@record
class RoleVerdict:
    """The small verdict on the calls of one role other than agent.

    ``health``, ``rule``, ``subcategory``, ``cause`` and ``error`` as in a verdict; counts are
    of logical calls. ``attributed_to`` is whose failures decided, where agents are untrusted and
    references say: the agent's where its output made the role's calls fail.
    """

    health: Health
    rule: str
    subcategory: Subcategory | None = None
    cause: str | None = None
    error: str | None = None
    total_requests: int = 0
    failed_requests: int = 0
    evidence: tuple[str, ...] = ()
    attributed_to: AttributedTo | None = None


class Comparison(StrEnum):
    """A failure compared with the reference calls that were asked beside it."""

    FAILED_ALIKE = "failed_alike"
    ANSWERED = "answered"
    PARTLY = "partly"  # some were answered, and one failed alike
    OTHERWISE = "otherwise"  # failed otherwise, was refused itself, or could not be run
    NO_REFERENCE = "no_reference"  # the proxy holds no key, or reference calls are off


@record
class VerdictReference:
    """A series of reference calls that a verdict stands on.

    ``exchange_id`` is the failed call that it was asked beside, ``result`` how the two compare
    (None while the series runs). Of its ``calls``, ``answered`` were. Times are in seconds since
    the epoch; ``not_run`` is why nothing was asked.
    """

    exchange_id: str
    series: str
    result: Comparison | None
    started_at: float
    ended_at: float | None = None
    calls: int = 0
    answered: int = 0
    not_run: str | None = None


class ProofSource(StrEnum):
    """The source that saw the output of the model under test."""

    WIRE = "wire"
    REPORTED = "reported"  # only the runner, which counted tokens or tool calls


@record
class Proof:
    """The proof that the model under test answered: the first and last exchange with its output.

    Output that only the runner reports has no exchanges.
    """

    source: ProofSource
    first: str | None = None
    last: str | None = None


@record
class Retry:
    """A recommendation to retry the rollout or not. ``after_s`` is the least wait in seconds."""

    eligible: bool
    after_s: float | None
    reason: str


@record
class Verdict:
    """One rollout's judgement, with the rule that fired and the exchanges that prove it.

    Fields stand in the contract's order, in which they are encoded.

    Counts are of logical calls by role agent (an SDK's retries of one request are one
    call); ``status_counts`` counts raw failed answers by HTTP status. Tokens are sums of
    normalised totals, None where no call told any. ``lost_s`` is in seconds.
    ``attributed_to`` is whose failures decided it; the agent's leave it healthy.
    ``excluded_by``: for what a healthy one's score is left out, "cancelled", "max_steps", "budget"
    and the names of checks; "budget" also of one that its batch's limit let make no call.
    ``corroborated``: whether reference calls, or other rollouts where none were asked, failed alike
    (True), were answered (False), or nobody called (None). ``references``: the series that
    were asked beside its calls. ``validity``: what was found of a measurement whose model was
    reached; it never changes ``health``. ``proof``: that the model under test answered;
    None where nothing shows it, and in verdicts stored before it was looked for. ``classifier``:
    the version of the rules; those of the seed policy are version 1 for good. ``sentence``:
    does it count, why, whose failure, what next, by `classifier.sentences`; None in verdicts
    stored before every one had it.
    """

    rollout_id: str
    batch: str | None
    health: Health
    subcategory: Subcategory | None = None
    transient: bool | None = None
    fingerprint: str | None = None
    cause: str | None = None
    lane: str | None = None
    layer: Layer | None = None
    rule: str = field(kw_only=True)
    policy: str = field(kw_only=True)
    error: str | None = None
    total_requests: int = 0
    failed_requests: int = 0
    recovered_requests: int = 0
    status_counts: dict[str, int] = field(default_factory=dict)
    dominant_status: int | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    total_tokens: int | None = None
    tool_calls: int | None = None
    cost_usd: float | None = None
    tokens_unknown_calls: int | None = None  # that used tokens; None: not counted
    cost_unknown_calls: int | None = None  # the same, of every role
    lost_s: float | None = None
    scoreable: str = "yes"
    doomed: bool = False
    provisional: bool = True
    retry: Retry = field(
        default_factory=lambda: Retry(eligible=False, after_s=None, reason="nothing failed")
    )
    warnings: tuple[str, ...] = ()
    evidence: tuple[str, ...] = ()
    classifier: str = "1"
    late_calls: int = 0  # after the rollout was closed; they change nothing
    judged_at: float | None = None  # seconds since the epoch; None while provisional
    attributed_to: AttributedTo | None = None
    corroborated: bool | None = None
    validity: tuple[ValidityFinding, ...] = ()  # the worst first
    validity_coverage: dict[str, Coverage] = field(default_factory=dict)  # by check
    roles: dict[str, RoleVerdict] = field(default_factory=dict)
    # Waited for answers; with lost_s, held_s and agent_s the wall time.
    provider_s: float | None = None
    agent_s: float | None = None
    excluded_by: tuple[str, ...] = ()
    proof: Proof | None = None
    references: tuple[VerdictReference, ...] = ()  # by the start of the call each was asked beside
    held_s: float | None = None  # calls waited at the proxy; None where none has to
    sentence: str | None = None
    # Asked for by the deciding failure, the ways in which main calls were served, and how many of
    # them were answered, of how many.
    provider_wait_s: float | None = field(default=None, metadata=IN_MEMORY)
    servings: tuple[tuple[str | None, ...], ...] = field(default=(), metadata=IN_MEMORY)
    answered: tuple[int, int] | None = field(default=None, compare=False, metadata=IN_MEMORY)

    @property
    def error_category(self) -> str | None:
        """``health`` where it removes the score, else None."""
        return self.health.value if self.health.unhealthy else None


def plural(count: int, noun: str) -> str:
    """Return ``1 call``, ``1,234 calls``, as sentences of verdicts have it."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


# --- policy ---
#
# Limits, retry settings and the breaker threshold.


TRUSTED, UNTRUSTED = "trusted", "untrusted"
VALIDITY = ("invalid", "suspect", "none")  # from which finding on a rollout is not scoreable


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """The settings of classification.

    ``name`` is "evidence" (every rule) or "seed" (benchflow's published behaviour).
    ``stall_s``: an agent that hangs up after this many seconds of silence was stalled.
    ``doomed_after``: equal permanent failures until a rollout is doomed; 0 turns it off.
    ``agents``: "trusted", or "untrusted" where they may fail calls to rid themselves of a
    score. ``validity``: "invalid", "suspect" or "none", the mildest finding that makes a rollout
    not scoreable. ``max_steps``: "score" or "exclude" rollouts that ran out of steps. ``budget``:
    the same of those that spent a limit themselves.
    ``content_filter``: "failure", or "answer" where a filter on a request is the outcome of what
    is tested; a filter on an answer is an answer under each.
    ``max_retries``: tries that count, beside the first; see `classifier.lane`.
    ``repetition``: attempts in a row with one and the same cause that make a rejection
    deterministic. ``request_repeats``: failures of one and the same request
    inside a rollout that earn a warning. ``breaker_threshold``: 0 turns the breaker off.
    ``breaker_probe``: an open one admits a probe after a cool-down.
    """

    name: str = "evidence"
    stall_s: float = 60.0
    doomed_after: int = 2
    agents: str = TRUSTED
    validity: str = "invalid"
    max_steps: str = "score"
    budget: str = "score"
    content_filter: str = "failure"
    max_retries: int = 2
    repetition: int = 3
    request_repeats: int = 10
    breaker_threshold: int = 5
    breaker_probe: bool = True


EVIDENCE = Policy()
SEED = Policy(name="seed")
POLICIES = {policy.name: policy for policy in (EVIDENCE, SEED)}


def named(name: str) -> Policy:
    """Return the policy of that name; ``ValueError`` lists the known names."""
    if name not in POLICIES:
        raise ValueError(f"policy: {name!r} is none of {', '.join(POLICIES)}")
    return POLICIES[name]
