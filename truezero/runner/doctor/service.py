"""Whether the service answers, records, knows whose the calls are, and accepts the token."""

from __future__ import annotations

import re
from collections.abc import Iterator

import httpx

from truezero import models
from truezero.printable import plural
from truezero.runner.doctor.checks import DoctorCheck
from truezero.sdk.client import Client
from truezero.sdk.errors import ServiceError

_UNATTRIBUTED = re.compile(r"^truezero_unattributed_calls_total\{[^}]*\} (\S+)$", re.MULTILINE)


def reachable(client: Client) -> DoctorCheck:
    """Check that a service of this release answers."""
    try:
        alive = client.greet()
    except ServiceError as error:
        return DoctorCheck(name="service", health="failed", told=str(error))
    return DoctorCheck(
        name="service", health="ok", told=f"truezero {alive.version} at {client.url}"
    )


def ready(service: str, http: httpx.Client) -> DoctorCheck:
    """Check that calls are recorded."""
    try:
        answer = http.get(f"{service}/readyz")
        state = models.Ready.model_validate(answer.json())
    except (httpx.HTTPError, ValueError) as error:
        detail = f"no valid response from /readyz ({type(error).__name__})"
        return DoctorCheck(name="ready", health="failed", told=detail)
    if state.status == "ready":
        detail = "calls are recorded"
        if state.gaps:
            detail += f"; calls not recorded since start: {state.gaps}"
        return DoctorCheck(name="ready", health="ok", told=detail)
    missing = "database" if not state.database else "recorder"
    detail = f"the {missing} is unavailable, so verdicts are undecided: see the service's log"
    return DoctorCheck(name="ready", health="failed", told=detail)


def unattributed(service: str, http: httpx.Client) -> Iterator[DoctorCheck]:
    """Tell of calls that name no rollout; with a token there are none, and no metrics for us."""
    try:
        answer = http.get(f"{service}/metrics")
    except httpx.HTTPError:
        return
    calls = sum(int(float(count)) for count in _UNATTRIBUTED.findall(answer.text))
    if answer.status_code == 200 and calls:
        them = "it" if calls == 1 else "them"
        detail = (
            f"{plural(calls, 'call')} since the service started named no rollout, so no verdict "
            f"counts {them}: "
            f"use the base URL {service}/r/ROLLOUT/UPSTREAM/…, or send the header x-truezero-key "
            "or x-truezero-rollout"
        )
        yield DoctorCheck(name="rollouts", health="failed", told=detail)


def token_refused(error: ServiceError) -> DoctorCheck:
    """Explain why the control plane accepts no rollout."""
    detail = str(error)
    if error.status == 401:
        detail = "the token is wrong or missing: set TRUEZERO_ADMIN_TOKEN to the service's"
    return DoctorCheck(name="token", health="failed", told=detail)
