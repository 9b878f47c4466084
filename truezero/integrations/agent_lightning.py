"""Agent Lightning: hooks that note each rollout's verdict, and an adapter that drops rows by it.

Its gateway retries 408, 409, 429 and 5xx six times, and its adapter gives a rollout without a
reward `reward_fillna_value`, 0.0 by default. The file that ``agentlightning.hooks`` names in the
trainer's configuration, whole::

    from agentlightning.hooks import RolloutHooks
    from agentlightning.verl import trainer
    from truezero.integrations.agent_lightning import VerdictHooks, measured_adapter

    trainer.RolloutAdapter = measured_adapter(trainer.RolloutAdapter)

    class Hooks(VerdictHooks, RolloutHooks):
        batch = "grpo-7"

Read from the sources of agentlightning 1.0.2 (hooks.py, verl/agl_rollout_manager.py,
verl/rollout_adapter.py), which is not imported.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from truezero import Client
from truezero.integrations.trainers import ERROR
from truezero.models import ExecutionStatus
from truezero.sdk.arguments import OutcomeFacts
from truezero.sdk.errors import ServiceError

if TYPE_CHECKING:
    from truezero.audit.mask import Trace, WireVerdicts
    from truezero.audit.trace_format import Record

NOTE = "truezero"
"""The type of the event that says what was found of a rollout."""

T = TypeVar("T")

_ROLLOUT = re.compile(r"/proxy/rollout/([^/]+)/attempt/")
_FIRST_ATTEMPT = "0"  # DEFAULT_ATTEMPT_ID of schemas.py


def base_url(agents_url: str, *, service: str, upstream: str = "agl") -> str:
    """Return an agent's base URL through truezero, under its rollout's own id.

    Arguments:
        agents_url: what its runner puts into ``AGL_OPENAI_BASE_URL``.
        service: truezero's address.
        upstream: the name under which truezero knows the address of Agent Lightning's server.

    Raises:
        ValueError: the URL names no rollout.
    """
    path = urlsplit(agents_url).path
    named = _ROLLOUT.search(path)
    if named is None:
        raise ValueError(f"{agents_url} names no rollout of Agent Lightning")
    return f"{service.rstrip('/')}/r/{named[1]}/{upstream}{path}"


class VerdictHooks:
    """Hooks that report each rollout to truezero and store what its verdict says as an event.

    The event's type is ``truezero``; its data are ``measured`` (null: unknown), ``reason``,
    ``kind``, ``resample``, and what else was found of its trace. A rollout that was not measured
    gets a last reward event without a value, so that no reward of it counts.

    For agents whose calls come to truezero under their rollout's id (`base_url`). Where the service
    is away, the event says that nothing is known.
    """

    batch: str
    """The batch of all rollouts."""

    _client: Client | None = None

    def on_startup(self, store: Any | None = None) -> None:
        """Connect to the service that ``TRUEZERO_URL`` names."""
        self._client = Client()

    def on_succeeded(self, rollout: Any, events: Mapping[str, Sequence[Any]], store: Any) -> None:
        """Report a rollout whose agent ended, and note what was seen of it."""
        attempt = rollout.status.last_attempt_id or _FIRST_ATTEMPT
        records = [each.model_dump(mode="json") for each in events.get(attempt, ())]
        self._note(rollout, "success", records, store)

    def on_failed(self, rollout: Any, store: Any) -> None:
        """Report a rollout whose agent failed, and note what was seen of it."""
        timed_out = "timed out" in (rollout.status.error_message or "")
        self._note(rollout, "task_timeout" if timed_out else "agent_error", [], store)

    def _note(
        self, rollout: Any, status: ExecutionStatus, records: Sequence[Record], store: Any
    ) -> None:
        rollout_id, attempt = rollout.rollout_id, rollout.status.last_attempt_id or _FIRST_ATTEMPT
        outcome: OutcomeFacts = {"batch": self.batch, "status": status, "prompts_executed": 1}
        if (task := _task(rollout.input)) is not None:
            outcome["task"] = task
        if (reward := _reward(records)) is not None:
            outcome["rewards"] = {"reward": reward}
        try:
            note = _note_of(self._seen(rollout_id, outcome, records))
        except ServiceError as error:
            note = {"measured": None, "reason": f"truezero: {error}", "kind": None}
        store.add_event(rollout_id, attempt, NOTE, note)
        if note["measured"] is False:
            unrewarded = {"value": None, "source": NOTE, "reason": ERROR}
            store.add_event(rollout_id, attempt, "reward", unrewarded)

    def _seen(self, rollout_id: str, outcome: OutcomeFacts, records: Sequence[Record]) -> Trace:
        from truezero.audit.mask import (  # noqa: PLC0415  judging is loaded by who masks
            WireVerdicts,
            mask,
            response_ids,
        )

        assert self._client is not None, "on_startup was not called"
        _, verdict = self._client.ended(rollout_id, **outcome)
        calls = self._client.exchanges(rollout_id)
        wire = WireVerdicts(
            verdicts={rollout_id: verdict.model_dump(mode="json")},
            calls={rollout_id: [each.model_dump(mode="json") for each in calls]},
            digests=self._client.digests(response_ids(records)),
        )
        masked = mask(records, wire)
        return (masked.traces or masked.absent)[0]


def measured_rollouts(completed: Iterable[T], wire: WireVerdicts | None = None) -> list[T]:
    """Return completed rollouts without those that have no measurement.

    Left out is what the wire says was not measured, and what has neither a reward nor a word of
    the wire that its model was reached. A rollout that its agent failed by itself stays.

    Arguments:
        completed: `CompletedRollout` objects, or the same as JSON has them.
        wire: what was recorded of them; None: as `VerdictHooks` noted it.
    """
    rollouts = list(completed)
    records = [_as_record(each) for each in rollouts]
    if wire is None:
        known = {each["rollout_id"]: _noted(each) for each in records}
    else:
        from truezero.audit.mask import mask  # noqa: PLC0415

        known = {each.rollout: each.measured for each in mask(records, wire).traces}
    return [
        rollout
        for rollout, record in zip(rollouts, records, strict=True)
        if _counts(known.get(record["rollout_id"]), record["final_reward"])
    ]


def measured_adapter(adapter: type[Any], wire: WireVerdicts | None = None) -> type[Any]:
    """Return a `RolloutAdapter` that makes rows and metrics of measured rollouts alone.

    Arguments:
        wire: as for `measured_rollouts`.
    """

    class MeasuredAdapter(adapter):  # type: ignore[misc]  # a class of theirs
        """An adapter that drops a rollout without a measurement before it fills its reward."""

        def get_train_data_batch(self, completed_rollouts: Sequence[Any], **facts: Any) -> Any:
            """Build a training batch."""
            measured = measured_rollouts(completed_rollouts, wire)
            return super().get_train_data_batch(measured, **facts)

        def get_test_metrics(self, completed_rollouts: Sequence[Any], **facts: Any) -> Any:
            """Build validation metrics."""
            measured = measured_rollouts(completed_rollouts, wire)
            return super().get_test_metrics(measured, **facts)

    return MeasuredAdapter


def _counts(measured: bool | None, reward: float | None) -> bool:
    return reward is not None if measured is None else measured


def _as_record(rollout: Any) -> dict[str, Any]:
    return dict(rollout) if isinstance(rollout, Mapping) else rollout.model_dump(mode="json")


def _noted(record: Record) -> bool | None:
    """Return the last word of the hooks on a rollout."""
    notes = [each["data"] for each in record.get("events") or () if each["event_type"] == NOTE]
    return notes[-1].get("measured") if notes else None


def _reward(records: Sequence[Record]) -> float | None:
    """Return the last reward, which is the one that counts."""
    values = [each["data"].get("value") for each in records if each["event_type"] == "reward"]
    last = values[-1] if values else None
    return float(last) if isinstance(last, int | float) and not isinstance(last, bool) else None


def _task(task_input: Any) -> str | None:
    """Return the name of a sample, as the server's list of ended rollouts has it."""
    fields = task_input if isinstance(task_input, Mapping) else {}
    stated = fields.get("data_id") or fields.get("instance_id")
    return None if stated is None else str(stated)


def _note_of(trace: Trace) -> dict[str, Any]:
    note = trace.note()
    return {name: value for name, value in note.items() if name not in ("rollout", "truezero")}
