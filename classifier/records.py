"""The records that are classified: exchanges from the wire and outcomes from the runner.

None holds a prompt, a completion or a key.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from functools import cache
from typing import Annotated, NamedTuple, TypeAlias

from classifier.declarations import IN_MEMORY, AtMost, declared, is_record, record
from classifier.references import REFERENCE, ReferenceSeries
from classifier.verdicts import Subcategory, plural


class Ending(StrEnum):
    """The way one exchange ended."""

    COMPLETE = "complete"
    CUT_UPSTREAM = "cut_upstream"  # the provider's connection broke before the answer was whole
    LEFT_BY_AGENT = "left_by_agent"  # the agent hung up first
    LEFT_WHILE_HELD = "left_while_held"  # the agent hung up while the proxy let the call wait
    CLOSED_AT_OUTCOME = "closed_at_outcome"  # in flight when the rollout ended, and cut then
    TIMED_OUT = "timed_out"  # the proxy's own connect, read or write limit
    NEVER_CONNECTED = "never_connected"  # refused, unresolvable, TLS failure: no byte was sent
    LOST = "lost"  # the proxy died while the call was in flight


ABANDONED = frozenset((Ending.LEFT_BY_AGENT, Ending.CLOSED_AT_OUTCOME))
"""The endings of calls whose agent waited no longer, one that has ended among them."""


class Kind(StrEnum):
    """The purpose of a call. Only inference counts in a verdict.

    A continuation belongs to the call that began its response, and counts with it.
    """

    INFERENCE = "inference"
    CONTINUATION = "continuation"  # a GET of what a POST began, or what cancels it
    ACTIVITY = "activity"  # images, audio, video, batches, files: no tokens are read of them
    EMBEDDING = "embedding"
    PROBE = "probe"  # HEAD /, /models, count_tokens
    OTHER = "other"


class UsageSource(StrEnum):
    """The source of token counts, which are never estimates."""

    PROVIDER = "provider"  # the provider's own final numbers in the body
    PARTIAL = "partial"  # counted so far, then the answer stopped
    HEADER = "header"  # from response headers only
    ABSENT = "absent"


class Attribution(StrEnum):
    """The source that named the rollout, strongest first (contract §1)."""

    PATH = "path"
    MINTED_KEY = "minted_key"
    HEADER = "header"
    BORROWED_HEADER = "borrowed_header"
    UNATTRIBUTED = "unattributed"  # none did
    REFERENCE = "reference"  # the proxy itself called, for no rollout


UNATTRIBUTED = "unattributed"
"""The reserved id under which calls that name no rollout are recorded; no rollout has it."""

RESERVED = frozenset((UNATTRIBUTED, REFERENCE))
"""The ids of calls of no rollout: without a row, an outcome or a verdict."""


ROLLOUT_MAX = 200  # characters of a rollout's id, contract §1
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")


def id_flaw(rollout_id: str) -> str | None:
    """Return why no rollout can have an id that is not reserved; None if one can."""
    if not rollout_id:
        return "a rollout id must not be empty"
    if len(rollout_id) > ROLLOUT_MAX:
        return f"a rollout id has at most {ROLLOUT_MAX} characters"
    if _CONTROL.search(rollout_id):
        return "a rollout id must not contain control characters"
    return None


class KeySource(StrEnum):
    """The owner of the key that was sent to the provider."""

    OPERATOR = "operator"  # put in by the proxy, without what the caller's headers chose with it
    ADDED = "added"  # the same, where the caller showed none; its other headers were passed on
    AGENT = "agent"  # the caller's; the operator has none for this upstream
    OVERRIDE = "override"  # the caller's, although the operator has one


class Flaw(StrEnum):
    """A defect of a response whose status is a success."""

    EMPTY_BODY = "empty_body"
    HTML_BODY = "html_body"
    FOREIGN_BODY = "foreign_body"  # text, bytes or null where an API answers in objects
    TRUNCATED = "truncated"  # neither a finish reason nor the dialect's terminal event
    ABORTED = "aborted"  # its finish reason says so, and no text or tool call came before
    WRONG_SHAPE = "wrong_shape"  # the answer of another API than was asked


class AnswerState(StrEnum):
    """The content found in an answer whose status is a success."""

    READ = "read"  # output of a model, or a stop that is an answer
    EMPTY = "empty"  # the part that holds output is there, and holds nothing
    UNREAD = "unread"  # seen whole, and neither output nor an error was found
    UNSEEN = "unseen"  # too long, encoded otherwise or no text: evidence is missing


READ_REQUEST_BYTES = 8_388_608  # of a longer request's body neither model nor tools are read
COUNT_LIMIT = 10**9  # tokens; no call has more, so a larger count is no count
COST_LIMIT = 1e6  # US dollars; a billion tokens at the highest prices cost less
Tokens: TypeAlias = Annotated[int | None, AtMost(COUNT_LIMIT)]
TokenTotal: TypeAlias = Annotated[int | None, AtMost(6 * COUNT_LIMIT)]  # of what is stated
Cost: TypeAlias = Annotated[float | None, AtMost(COST_LIMIT)]


@record
class Usage:
    """Token counts of one exchange; ``None`` is unknown, 0 is the provider's own zero.

    The first six are the provider's numbers, nothing added up. ``input_total`` is all
    input including cache reads and writes, ``output_total`` all output including
    reasoning (the OpenTelemetry GenAI rule, notes 16-19).
    """

    input_tokens: Tokens = None
    output_tokens: Tokens = None
    cached_input_tokens: Tokens = None
    cache_write_tokens: Tokens = None
    reasoning_tokens: Tokens = None
    total_tokens: Tokens = None
    input_total: TokenTotal = None
    output_total: TokenTotal = None
    source: UsageSource = UsageSource.ABSENT
    cost_usd: Cost = None  # as the provider states it, US dollars


@record
class Timing:
    """The times of a call: ``started_at`` in seconds since the epoch, the rest since then."""

    started_at: float
    first_byte_s: float | None = None
    first_token_s: float | None = None
    duration_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderError:
    """A provider's error, in memory only until its cause is classified.

    ``reasons`` are the further machine-readable names around it, in the order found:
    Google ``status`` and ``details[].reason`` and ``quotaId``, AWS exception names,
    ``metadata`` codes. ``status`` is one stated inside the body. ``message`` is the
    provider's own sentence, capped at 2,000 characters, and is never stored.
    ``retry_after_s`` is a wait stated in the body, ``headers`` those of rate limits that the body
    quotes (OpenRouter), and moments in it that are named as such headers are.
    """

    code: str | None = None
    type: str | None = None
    message: str | None = None
    param: str | None = None
    reasons: tuple[str, ...] = ()
    status: int | None = None
    retry_after_s: float | None = None
    headers: tuple[tuple[bytes, bytes], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureEvidence:
    """The evidence for the cause of one call.

    ``silent_s`` is how long no content had come when the call ended; 0 where the request had
    not been sent whole or the agent did not read. ``retry_after_s`` comes from headers, and so does
    ``used_up``: they say that nothing was left of some limit.
    ``stated_type`` is the exception name a header carries (``x-amzn-errortype``). ``answered``:
    output of the model came before the error. ``request_keys`` are the keys of the request's JSON
    object as it was parsed; empty if it was not.
    """

    upstream: str
    api: str
    kind: Kind
    status: int | None
    ending: Ending
    error: ProviderError | None = None
    flaw: Flaw | None = None
    silent_s: float = 0.0
    retry_after_s: float | None = None
    used_up: bool = False
    stated_type: str | None = None
    answered: bool = False
    request_keys: Collection[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """The reason why a call failed, and the row of the cause table that says so.

    ``reason`` is the finer name inside the subcategory (``context_length``,
    ``region``, ``truncated``); ``code`` the provider's own allow-listed code or type.
    """

    subcategory: Subcategory
    transient: bool
    rule: str
    reason: str | None = None
    code: str | None = None
    retry_after_s: float | None = None


UNREAD_API = "unread "
"""Begins the API of a call that asks a question at a path that is not read."""
USED_UP = "used_up"
"""The reason of a rate limit of which the answer's headers say that nothing was left."""
WRONG_SHAPE = "wrong_shape"
"""The reason of a rejection whose answer has the shape of another API than was asked."""
HARNESS_BUDGET = "harness_budget"
"""The reason of a rejection by a budget that the harness set: of turns, say."""
HARNESS_REFUSAL = "harness_refusal"
"""The reason of a rejection by the harness itself: its relay was full, or away, or done."""
HARNESS = frozenset((HARNESS_BUDGET, HARNESS_REFUSAL))
_SILENCE = frozenset(("stalled", "timeout"))  # reasons of a cause
_TIMED_OUT = frozenset((408, 504, 524))


@record
class Exchange:
    """One call of an agent and its result. ``ending`` is None while in flight."""

    id: str
    rollout_id: str
    upstream: str
    api: str
    timing: Timing
    kind: Kind = Kind.INFERENCE
    method: str = "POST"
    role: str = "agent"
    model: str | None = None  # as the agent asked for it
    answered_model: str | None = None  # as the provider named it
    status: int | None = None  # HTTP; None if no answer's head came
    ending: Ending | None = None
    streamed: bool | None = None
    usage: Usage = Usage()
    finish_reason: str | None = None
    tool_calls: int | None = None  # calls the answer asked for; None when it could not be read
    output_seen: bool | None = None  # any text, reasoning or tool call; None when unreadable
    content_seen: bool | None = None  # the same without reasoning; None when unreadable
    has_tools: bool | None = None  # the request offered tools
    cause: Cause | None = None  # None: no failure of the provider
    provider_request_id: str | None = None
    request_bytes: int = 0
    response_bytes: int = 0
    request_digest: str | None = None  # salted; equal digests are the same request
    sdk_retry: int | None = None  # x-stainless-retry-count
    response_digest: str | None = None  # salted, of the answer's own id, or of the one fetched
    pending: bool | None = None  # it is queued or in progress; None if it is not fetched later
    attribution: Attribution = Attribution.PATH
    key_digest: str | None = None
    injected: bool = False
    unreadable_reason: str | None = None  # why the response could not be read; None if it could
    selector_digest: str | None = None  # salted, of what chooses account, region, tier or version
    key_source: KeySource | None = None
    model_ambiguous: bool | None = None  # the request's model is written twice, or unreadable
    held: bool | None = None  # as it ended, the request was not whole or the agent did not read
    output_limit: int | None = None  # tokens that the request allows for its answer
    prompt_words: int | None = None  # words of plain text in the prompt, at least; from samples
    continues: str | None = None  # the earlier exchange whose conversation it repeats and goes on
    begun_elsewhere: bool | None = None  # another address began with the same message before
    written_call: bool | None = None  # its text ends in a call of an offered tool, unparsed
    fallback: bool | None = None  # a gateway says that another model stood in
    served_by: str | None = None  # provider or region that answered, as the answer names it
    system_fingerprint: str | None = None  # of the engine's configuration, as the answer states it
    weight_version: str | None = None  # of the weights; several, oldest first, have commas between
    answer_state: AnswerState | None = None  # None: no success, or recorded before 0.2
    inferred: bool | None = None  # read by its shape, at a path of no dialect
    output_digest: str | None = (
        None  # salted, of the text or the tool call; equal ones are the same
    )
    output_reads_as: Subcategory | None = None  # the failure that a short text tells of
    held_s: float | None = None  # it waited before it was sent; None where none has to
    billed_as: str | None = None  # a tier or paid tools, which the price of its tokens leaves out
    traceparent: str | None = field(default=None, metadata=IN_MEMORY)  # the agent's own (W3C)

    @property
    def failed(self) -> bool:
        """True if the provider failed this call."""
        return self.cause is not None

    @property
    def timed_out(self) -> bool:
        """True if it ended in silence or a time-out, the proxy's or the provider's."""
        if self.cause is not None and self.cause.reason in _SILENCE:
            return True
        return self.ending is Ending.TIMED_OUT or self.status in _TIMED_OUT


def check_order(cls: type, names: Iterable[str]) -> None:
    """Check that a dataclass's arguments are these, in this order: of one built by position.

    Raises:
        TypeError: a field was added, moved or removed, and the values were not.
    """
    declared_order = tuple(each.name for each in fields(cls) if each.init)
    if tuple(names) != declared_order:
        raise TypeError(f"{cls.__name__} is built by position, and not as it declares its fields")


class RecordedField(NamedTuple):
    """One recorded value of an exchange.

    ``part`` is the field of `Exchange` that holds it, empty for the exchange itself, ``field`` its
    name there. ``name`` is that of its column in the database and its key in REST and exports.
    The rest is as in `DeclaredField`.
    """

    name: str
    part: str
    field: str
    type: type
    optional: bool
    limit: float | None


_RENAMED = {("usage", "source"): "usage_source", ("cause", "code"): "error_code",
            ("", "attribution"): "attribution_source",
            ("", "unreadable_reason"): "deaf"}  # fmt: skip


@cache
def columns() -> tuple[RecordedField, ...]:
    """Return what is recorded of an exchange, as `Exchange` declares it, in its order.

    Rows, exports and archives are made of this: a new field is declared here alone.
    """
    return tuple(_columns(Exchange, ""))


def _columns(cls: type, part: str) -> Iterator[RecordedField]:
    for each in declared(cls):
        if is_record(each.type):
            yield from _columns(each.type, each.name)
        else:
            yield RecordedField(_RENAMED.get((part, each.name), each.name), part, *each)


class ExecutionStatus(StrEnum):
    """The status of a rollout's execution, as the runner reports it."""

    SUCCESS = "success"
    AGENT_ERROR = "agent_error"
    ENVIRONMENT_ERROR = "environment_error"
    USER_ERROR = "user_error"
    TASK_TIMEOUT = "task_timeout"
    UNKNOWN_EXECUTION_ERROR = "unknown_execution_error"
    EVALUATION_FAILED = "evaluation_failed"
    SETUP_FAILED = "setup_failed"
    CANCELLED = "cancelled"  # its runner was stopped before the end


class TerminationReason(StrEnum):
    """The reason why the agent's loop stopped, if the status is success."""

    AGENT_STOP = "agent_stop"
    USER_STOP = "user_stop"
    MAX_STEPS = "max_steps"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The runner's report of a rollout. Counts that it did not keep are None."""

    status: ExecutionStatus
    termination_reason: TerminationReason | None = None
    prompts_executed: int | None = None
    tool_calls: int | None = None
    total_tokens: int | None = None
    rewards: dict[str, float] | None = None
    eval: dict[str, object] | None = None
    error: str | None = None
    verifier_error: str | None = None
    export_error: str | None = None


@record
class Neighbours:
    """The results of other rollouts on a failed call's lane, within a minute of its end.

    Counts are of rollouts: ``alike`` failed in the same way, ``answered`` were answered.
    ``answered_between``: one of them between this failure and the two nearest alike. ``at_once``
    failed alike by other requests within 5 s. ``starts``: calls of others on the lane in the 10 s
    before it; ``open``: those open as it ended. ``respelled``: others of the same registration were
    answered by the model under another spelling of its name, and none of them under this one.
    """

    alike: int = 0
    answered: int = 0
    answered_between: bool = False
    at_once: int = 0
    starts: int = 0
    open: int = 0
    respelled: bool = False


@record
class LimitReached:
    """The first limit that kept the agent from a call; of those of the proxy, the last one.

    ``scope`` is "rollout", "batch" or "service", ``limit`` calls, tokens, cost_usd or seconds,
    ``most`` its amount and ``at`` when, in seconds since the epoch. ``spent`` is what all calls
    that it counts had spent, ``own`` what the rollout's had, and ``callers`` how many rollouts had.
    ``held_s``: a call waited for it before it was refused; it is on record nowhere else.
    ``by_others``: calls of other rollouts in flight had reserved what the call needed; None if it
    was spent, and of a rollout's own limit.
    """

    scope: str
    limit: str
    most: float
    spent: float
    own: float
    callers: int
    at: float
    held_s: float | None = None
    by_others: bool | None = None

    @property
    def is_of_proxy(self) -> bool:
        """True if what rollouts share was used up by others: room for calls, or reservations."""
        return self.scope == "service" or (not self.is_spent and self.by_others is True)

    @property
    def is_spent(self) -> bool:
        """True if it was spent; otherwise calls in flight had reserved what was left of it."""
        return self.spent >= self.most

    def is_own_doing(self, *, untrusted: bool) -> bool:
        """Return True if the rollout itself spent what was to be spent.

        Of a batch's limit it did so alone; an untrusted agent also where it spent more than an
        equal share, or where calls in flight had merely reserved what was left, which may be its
        own: none is to be rid of a score by that.
        """
        if self.scope == "rollout" or self.callers <= 1:
            return True
        return untrusted and (self.own * self.callers > self.most or not self.is_spent)

    def __str__(self) -> str:
        """Return ``the batch's limit of 500 calls was spent``."""
        unit = "US dollars" if self.limit == "cost_usd" else self.limit
        most = int(self.most) if float(self.most).is_integer() else self.most
        if self.scope == "service":
            return f"the service's limit of {plural(int(most), 'call')} at once was reached"
        amount = plural(1, unit.removesuffix("s")) if most == 1 else f"{most:,} {unit}"
        return f"the {self.scope}'s limit of {amount} was spent"


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutRecord:
    """Everything known of one rollout, as the classifier reads it.

    ``repeat`` is which sample of its task it is, ``attempt`` which try of that sample, from 0.
    ``exchanges`` in order of their start; ``gaps`` counts calls that were served but
    could not be recorded. ``outcome`` is None while the runner has not reported. An answer of
    one of ``fallbacks``, which the runner declared beside ``model``, counts as reaching it.
    ``began_at`` is when it was registered or first called, ``ended_at`` when its outcome was
    reported, in seconds since the epoch. ``agents``, ``validity``, ``max_steps``, ``budget`` and
    ``content_filter`` are its batch's policy; None: as the service's policy says. ``neighbours``
    are those of failed calls, by exchange id, as far as they were read. ``references`` are the
    series asked beside failed calls, by the id of the failed exchange; beside one without an entry
    none could be asked. ``unattributed_calls`` of agents named no rollout while this one ran,
    counted where no call of its own was answered. ``passes_tokens``: the median of the output
    tokens of its task's other passes, read where it passed too. ``skipped`` is why an open breaker
    did not admit it: ``skipped: breaker open on auth:401 after 5 rollouts in a row``.
    ``limit_reached``: the limit that refused a call of its agent.
    """

    id: str
    batch: str | None = None
    task: str | None = None
    model: str | None = None
    upstream: str | None = None
    usage_channel: str = "proxy"  # "none": an agent on its own subscription
    client_cache: bool | None = None  # its client has a cache, whose answers make no call
    reward_range: tuple[float, ...] | None = None  # least and greatest, one for all of its batch
    score_key: str | None = None  # of its rewards, the one that is the score: likewise
    repeat: int | None = None
    attempt: int | None = None
    gaps: int = 0
    unattributed_calls: int = 0
    passes_tokens: float | None = None
    fallbacks: tuple[str, ...] = ()
    agents: str | None = None
    validity: str | None = None
    max_steps: str | None = None
    content_filter: str | None = None
    budget: str | None = None
    skipped: str | None = None
    limit_reached: LimitReached | None = None
    began_at: float | None = None
    ended_at: float | None = None
    neighbours: Mapping[str, Neighbours] = field(default_factory=dict)
    references: Mapping[str, ReferenceSeries] = field(default_factory=dict)
    exchanges: tuple[Exchange, ...] = ()
    outcome: Outcome | None = None

    @property
    def models(self) -> tuple[str, ...]:
        """Every name of the model under test that the runner registered, the main one first."""
        return self.fallbacks if self.model is None else (self.model, *self.fallbacks)
