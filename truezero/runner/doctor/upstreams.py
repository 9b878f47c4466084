"""Whether API keys work and models exist, asked through the proxy.

API keys and provider messages are never repeated.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import httpx

from truezero import models
from truezero.printable import plural
from truezero.runner.doctor.checks import DoctorCheck, Wanted
from truezero.runner.doctor.providers import ProbedProvider, provider_of

ROLE = "doctor"  # keeps these calls apart from the agent's


@dataclass(frozen=True, slots=True, kw_only=True)
class _Probe:
    """Access to one upstream through the proxy."""

    upstream: str
    provider: ProbedProvider
    base_url: str
    headers: Mapping[str, str]
    held: bool  # no key of ours: the service may hold one
    http: httpx.Client

    def get(self, path: str) -> httpx.Response:
        return self.http.get(self.base_url + path, headers=dict(self.headers))

    def post(self, path: str, body: dict[str, Any]) -> httpx.Response:
        return self.http.post(self.base_url + path, json=body, headers=dict(self.headers))


def examine_upstreams(
    rollout: models.RolloutRegistered,
    wanted: Wanted,
    environment: Mapping[str, str],
    http: httpx.Client,
) -> Iterator[DoctorCheck]:
    """Check the upstreams that are named or have a key in the environment, and their models."""
    named = dict.fromkeys((*wanted.upstreams, *(upstream for upstream, _ in wanted.models)))
    keyed = [one for one in rollout.base_urls if _key(provider_of(one), environment)]
    if not (named or keyed):
        detail = "no API key in the environment; use --upstream to check keys held by the service"
        yield DoctorCheck(name="keys", health="skipped", told=detail)
    for upstream in dict.fromkeys((*named, *keyed)):
        if upstream not in rollout.base_urls:
            detail = "unknown upstream, or its address is not configured"
            yield DoctorCheck(name=upstream, health="failed", told=detail)
            continue
        probe = _probe(upstream, rollout, environment, http)
        yield from _check_upstream(
            probe, [m for name, m in wanted.models if name == upstream], wanted.ask
        )


def _key(provider: ProbedProvider, environment: Mapping[str, str]) -> str | None:
    return next((environment[name] for name in provider.keys if environment.get(name)), None)


def _probe(
    upstream: str,
    rollout: models.RolloutRegistered,
    environment: Mapping[str, str],
    http: httpx.Client,
) -> _Probe:
    provider, access = provider_of(upstream), rollout.roles[ROLE]
    key = _key(provider, environment)
    credential = key or access.key
    if provider.header == "authorization":
        credential = f"Bearer {credential}"
    headers = {
        provider.header: credential,
        **dict(provider.extra),
    }
    return _Probe(
        upstream=upstream,
        provider=provider,
        base_url=access.base_urls[upstream],
        headers=headers,
        held=key is None,
        http=http,
    )


def _check_upstream(probe: _Probe, named: Sequence[str], ask: bool) -> Iterator[DoctorCheck]:
    name = f"{probe.upstream} key"
    try:
        answer = probe.get(probe.provider.list)
    except httpx.HTTPError as error:
        yield DoctorCheck(name=name, health="failed", told=f"no answer ({type(error).__name__})")
        return
    if answer.status_code != 200:
        yield DoctorCheck(name=name, health="failed", told=_explain(answer, probe))
        return
    there = _names(answer)
    count = f"; {plural(len(there), 'model')}" if there else ""
    held = "the service's key" if probe.held else "the key"
    yield DoctorCheck(name=name, health="ok", told=f"{held} is valid{count}")
    for model in named:
        yield _model(probe, model, there)
        if ask:
            yield _call(probe, model)


def _explain(answer: httpx.Response, probe: _Probe) -> str:
    """Explain a status without quoting the provider."""
    refusal = answer.headers.get("x-truezero-refusal")
    if refusal is not None:
        return f"rejected by the proxy ({refusal}): {answer.json().get('detail', '')}"
    detail = _STATUS.get(answer.status_code, "unexpected response of the provider")
    if answer.status_code in (401, 403) and probe.held:
        variable = f"TRUEZERO_KEY_{probe.upstream.upper().replace('-', '_')}"
        detail = (
            f"no valid key in the environment ({' or '.join(probe.provider.keys)}) nor in the "
            f"service ({variable})"
        )
    return f"HTTP {answer.status_code}: {detail}"


_STATUS: Mapping[int, str] = {
    400: "the provider rejects the key: check that it is this provider's and still valid",
    401: "the key is invalid or revoked: create a new one",
    402: "the account has no credit left",
    403: "permission denied: check the account's permissions and regions",
    404: "not found: check the upstream's address and its path prefix",
    429: "rate limit or quota reached: check the account's limits and billing",
    500: "provider error: try again later",
    503: "provider unavailable: try again later",
    529: "provider overloaded: try again later",
}


def _names(answer: httpx.Response) -> frozenset[str]:
    """Return the models of a list: OpenAI and Anthropic `data[].id`, Gemini `models[].name`."""
    try:
        body = answer.json()
    except ValueError:
        return frozenset()
    body = {"data": body} if isinstance(body, list) else body
    items = body.get("data") or body.get("models") or [] if isinstance(body, dict) else []
    entries = [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []
    names = [str(item.get("id") or item.get("name") or "") for item in entries]
    return frozenset(name.removeprefix("models/") for name in names if name)


def _model(probe: _Probe, model: str, there: frozenset[str]) -> DoctorCheck:
    """Check whether a model is listed, or found by name: aliases are not listed."""
    name = f"{probe.upstream}/{model}"
    if model in there:
        return DoctorCheck(name=name, health="ok", told="the model exists")
    if probe.provider.one is not None:
        try:
            answer = probe.get(probe.provider.one.format(model=quote(model, safe="")))
        except httpx.HTTPError as error:
            return DoctorCheck(
                name=name, health="failed", told=f"no answer ({type(error).__name__})"
            )
        if answer.status_code == 200:
            return DoctorCheck(name=name, health="ok", told="the model exists (alias)")
    elif not there:
        detail = "the provider's list of models is public: use --ask to check access"
        return DoctorCheck(name=name, health="skipped", told=detail)
    near = [one for one in sorted(there) if model.lower() in one.lower()][:3]
    hint = f"; did you mean {', '.join(near)}?" if near else ""
    return DoctorCheck(name=name, health="failed", told=f"the account has no such model{hint}")


def _call(probe: _Probe, model: str) -> DoctorCheck:
    """Call a model once: this also shows an account without credit, which a list does not."""
    name = f"{probe.upstream}/{model} asked"
    path, body = probe.provider.ask(model)
    try:
        answer = probe.post(path, body)
    except httpx.HTTPError as error:
        return DoctorCheck(name=name, health="failed", told=f"no answer ({type(error).__name__})")
    if answer.status_code == 200:
        return DoctorCheck(name=name, health="ok", told="the model answers")
    return DoctorCheck(name=name, health="failed", told=_explain(answer, probe))
