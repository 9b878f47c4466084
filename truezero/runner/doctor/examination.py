"""All checks, each before those that depend on it. No model is called unless asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress

import httpx

from truezero.runner.doctor import installation, service, upstreams
from truezero.runner.doctor.base_urls import base_urls
from truezero.runner.doctor.checks import DoctorCheck, Wanted
from truezero.sdk.base_client import DIRECT
from truezero.sdk.client import Client
from truezero.sdk.errors import ServiceError

_TIMEOUT_S = 20.0


def examine(
    client: Client,
    wanted: Wanted,
    environment: Mapping[str, str],
    *,
    transport: httpx.BaseTransport | None = None,
) -> Iterator[DoctorCheck]:
    """Run all checks, each before those that depend on it.

    Arguments:
        environment: variables that hold base URLs and keys.
        transport: for tests.
    """
    yield installation.installed()
    greeted = service.reachable(client)
    yield greeted
    if greeted.health == "failed":
        return
    mounts = dict.fromkeys(DIRECT)
    with httpx.Client(timeout=_TIMEOUT_S, transport=transport, mounts=mounts) as http:
        yield service.ready(client.url, http)
        yield from service.unattributed(client.url, http)
        yield from base_urls(environment, client.url, http)
        try:
            rollout = client.register(metadata={"doctor": True}, roles=[upstreams.ROLE])
        except ServiceError as error:
            yield service.token_refused(error)
            return
        yield DoctorCheck(name="token", health="ok", told="accepted by the control plane")
        try:
            yield from upstreams.examine_upstreams(rollout, wanted, environment, http)
        finally:
            with suppress(ServiceError):
                client.report(rollout.id, status="setup_failed", prompts_executed=0)
