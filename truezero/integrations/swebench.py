"""SWE-bench's report, with the instances whose agent reached no model named in its own fields.

A pure function over the report's JSON. ``truezero audit --write`` does the same for runs that
never saw a proxy.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol


class _Judged(Protocol):
    """The fields that are read of a verdict; `truezero.models.Verdict` has them."""

    @property
    def error_category(self) -> str | None: ...

    @property
    def error(self) -> str | None: ...

    @property
    def spoilt(self) -> str | None: ...


def with_failures(report: Mapping[str, Any], verdicts: Mapping[str, _Judged]) -> dict[str, Any]:
    """Return a report that names what was no measurement, and why; the one given is not changed.

    Fields as in SWE-bench 5.0 (``swebench/harness/reporting.py``): ``infra_failure_ids``,
    ``infra_failure_instances`` and ``failure_reasons``. What a report has there stays; the same
    verdicts again change nothing. Of ``ambiguous_failure_ids`` those are removed that are named
    now: SWE-bench lists a failure in one of the two. Lists such as ``unresolved_ids`` stay as it
    wrote them.

    Arguments:
        report: as ``json.load`` reads it.
        verdicts: by instance id; those of a model that was reached add nothing, unless their
            scores do not count.
    """
    every = {instance: _reason(verdict) for instance, verdict in verdicts.items()}
    reasons = {instance: why for instance, why in every.items() if why is not None}
    return {**report, **failures(report, reasons)} if reasons else dict(report)


def _reason(verdict: _Judged) -> str | None:
    """Return why an instance was no measurement; None if it was one."""
    if verdict.error_category is None:
        return verdict.spoilt
    return verdict.error or verdict.error_category


def failures(report: Mapping[str, Any], reasons: Mapping[str, str]) -> dict[str, Any]:
    """Return a report's fields of failures of infrastructure, with more of them.

    Arguments:
        reasons: why, by instance id.
    """
    failed = sorted({*(report.get("infra_failure_ids") or ()), *reasons})
    named = {**(report.get("failure_reasons") or {}), **reasons}
    found: dict[str, Any] = {
        "infra_failure_ids": failed,
        "infra_failure_instances": len(failed),
        "failure_reasons": dict(sorted(named.items())),
    }
    if ambiguous := report.get("ambiguous_failure_ids"):
        left = sorted({*ambiguous}.difference(failed))
        found |= {"ambiguous_failure_ids": left, "ambiguous_failure_instances": len(left)}
    return found
