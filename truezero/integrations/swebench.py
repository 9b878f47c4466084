"""SWE-bench's report, with the instances whose agent reached no model named in its own fields.

A pure function over the report's JSON. ``truezero audit --write`` does the same for runs that
never saw a proxy.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from truezero import models
from truezero.integrations.attempts import no_measurement


def with_failures(
    report: Mapping[str, Any], verdicts: Mapping[str, models.Verdict]
) -> dict[str, Any]:
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
    every = {instance: no_measurement(verdict) for instance, verdict in verdicts.items()}
    reasons = {instance: why for instance, why in every.items() if why is not None}
    return {**report, **failures(report, reasons)} if reasons else dict(report)


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
