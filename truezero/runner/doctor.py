"""`truezero doctor`: check the way from an agent to its models, a step at a time."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import metadata, util
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote, urlsplit

import httpx

from classifier.reruns import FIXES
from truezero import Client, models
from truezero.foreign import Body, ForeignError, check_encoding, parse
from truezero.printable import plural
from truezero.sdk import rest
from truezero.sdk.errors import OTHER_SERVICE, ServiceError, not_truezero
from truezero.sdk.rest import M

# --- results ---


Health = Literal["ok", "failed", "skipped"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DoctorCheck:
    """The result of one check; ``told`` says what was found and how to fix it."""

    name: str
    health: Health
    told: str


def _ok(name: str, told: str) -> DoctorCheck:
    return DoctorCheck(name=name, health="ok", told=told)


def _fail(name: str, told: str) -> DoctorCheck:
    return DoctorCheck(name=name, health="failed", told=told)


def _skip(name: str, told: str) -> DoctorCheck:
    return DoctorCheck(name=name, health="skipped", told=told)


def failed(checks: Sequence[DoctorCheck]) -> bool:
    """Return True if any check failed."""
    return any(check.health == "failed" for check in checks)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The upstreams and models to check besides the service.

    ``upstreams``: checked even without a key in the environment, because the service may
    hold one. ``models``: pairs of upstream and model. ``ask``: run a reference of each model.
    """

    upstreams: tuple[str, ...] = ()
    models: tuple[tuple[str, str], ...] = ()
    ask: bool = False


def wanted(upstreams: Sequence[str], named: Sequence[str], *, ask: bool) -> Wanted:
    """Parse what to check from the command's options.

    Raises:
        ValueError: a model is named without its upstream.
    """
    pairs = [name.partition("/") for name in named]
    for upstream, _, model in pairs:
        if not (upstream and model):
            raise ValueError(f"--model {upstream!r}: use UPSTREAM/MODEL, for example openai/gpt-5")
    models = tuple((upstream, model) for upstream, _, model in pairs)
    return Wanted(upstreams=tuple(upstreams), models=models, ask=ask)


# --- providers ---
#
# Requests that check a key and its models without an inference call.


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbedProvider:
    """A provider whose key and models can be checked without an inference call.

    ``keys``: environment variables its clients read the key from. ``header``: header that
    carries the key. ``list``: path that only a valid key can read. ``one``: path of a model
    by name.
    """

    keys: tuple[str, ...]
    header: str = "authorization"
    extra: Mapping[str, str] = field(default_factory=dict)
    list: str = "/models"
    one: str | None = "/models/{model}"


# Providers that differ from OpenAI. docs.claude.com/en/api/models-list, ai.google.dev/api/models;
# OpenRouter's list of models is public, so the key is checked at /key
# (openrouter.ai/docs/api-reference/limits).
_PROVIDERS: Mapping[str, ProbedProvider] = {
    "openai": ProbedProvider(keys=("OPENAI_API_KEY",)),
    "anthropic": ProbedProvider(
        keys=("ANTHROPIC_API_KEY",),
        header="x-api-key",
        extra={"anthropic-version": "2023-06-01"},
        list="/v1/models?limit=1000",
        one="/v1/models/{model}",
    ),
    "gemini": ProbedProvider(
        keys=("GEMINI_API_KEY", "GOOGLE_API_KEY"),
        header="x-goog-api-key",
        list="/v1beta/models?pageSize=1000",
        one="/v1beta/models/{model}",
    ),
    "openrouter": ProbedProvider(keys=("OPENROUTER_API_KEY",), list="/key", one=None),
}


def provider_of(upstream: str) -> ProbedProvider:
    """Return an upstream's own row, or the defaults of an OpenAI-compatible provider."""
    variable = f"{upstream.upper().replace('-', '_').replace('.', '_')}_API_KEY"
    return _PROVIDERS.get(upstream) or ProbedProvider(keys=(variable,))


# --- installation ---
#
# The check that the package `proxy` on this machine is truezero's.


# What a package called `proxy` must have to be ours.
_SERVICE_PARTS = ("relay/call.py", "capture/observer.py")


def installed() -> DoctorCheck:
    """Check that the package `proxy` is truezero's: PyPI has another of that name."""
    spec = util.find_spec("proxy")
    origin = Path(spec.origin) if spec is not None and spec.origin else None
    if origin is None:
        return _fail(
            "package", "the package `proxy` cannot be imported: pip install 'truezero[server]'"
        )
    others = [name for name in owners("proxy") if name != "truezero"]
    ours = all((origin.parent / part).is_file() for part in _SERVICE_PARTS)
    if ours and not others:
        return _ok("package", f"`proxy` is truezero's, at {origin.parent}")
    by = f"also belongs to {' and '.join(others)}" if others else "is not truezero's"
    fix = f"pip uninstall {others[0]}, then reinstall truezero" if others else "remove or rename it"
    return _fail("package", f"`proxy` at {origin} {by}: {fix}")


def owners(package: str) -> list[str]:
    """Return the installed distributions that provide an import package of this name."""
    return sorted(set(metadata.packages_distributions().get(package, ())))


# --- base URLs ---
#
# The check that the variables that agents read point at the service.


def base_urls(
    environment: Mapping[str, str], service: str, http: httpx.Client
) -> Iterator[DoctorCheck]:
    """Check that the variables that agents read point at the service."""
    names = [name for name in environment if name.endswith(("_BASE_URL", "_API_BASE"))]
    given = sorted(name for name in names if environment[name])
    if not given:
        yield _skip("base URLs", "no base URL variable is set; `truezero run` sets them")
    for name in given:
        yield _base_url(name, environment[name], service, http)


_ANOTHER = (OTHER_SERVICE, "other_version")


def _base_url(name: str, url: str, service: str, http: httpx.Client) -> DoctorCheck:
    parts = urlsplit(url)
    origin = f"{parts.scheme}://{parts.netloc}"
    try:
        _state(models.Alive, origin, "/healthz", http)
    except ServiceError as error:
        past = ": calls bypass the proxy and are not recorded" if error.code in _ANOTHER else ""
        return _fail(name, f"{error}{past}")
    other = "" if origin == service else f" (not {service})"
    return _ok(name, f"points at the service at {origin}{other}")


# --- service ---
#
# The checks that it answers, records, knows whose the calls are, and accepts the token.


_COUNTED = r"^truezero_{}_total\{{[^}}]*\}} (\S+)$"
_UNATTRIBUTED = re.compile(_COUNTED.format("unattributed_calls"), re.MULTILINE)
_UNREAD = re.compile(_COUNTED.format("unread_questions"), re.MULTILINE)


def reachable(client: Client) -> DoctorCheck:
    """Check that a service of this release answers."""
    try:
        alive = client.greet()
    except ServiceError as error:
        return _fail("service", str(error))
    return _ok("service", f"truezero {alive.version} at {client.url}")


def ready(service: str, http: httpx.Client) -> DoctorCheck:
    """Check that calls are recorded."""
    try:
        state = _state(models.Ready, service, "/readyz", http)
    except ServiceError as error:
        return _fail("ready", str(error))
    if state.status == "ready":
        gaps = f"; calls not recorded since start: {state.gaps}" if state.gaps else ""
        return _ok("ready", f"calls are recorded{gaps}")
    missing = "database" if not state.database else "recorder"
    detail = f"the {missing} is unavailable, so verdicts are undecided: see the service's log"
    return _fail("ready", detail)


def uncounted(service: str, http: httpx.Client) -> Iterator[DoctorCheck]:
    """Tell of calls that no verdict counts: they name no rollout, or are not read.

    With a token there are none of the first, and no metrics for us.
    """
    try:
        answer = _get(http, f"{service}/metrics")
    except (httpx.HTTPError, ForeignError):
        return
    text = answer.body.decode(errors="replace")
    calls = sum(int(float(count)) for count in _UNATTRIBUTED.findall(text))
    if answer.status == 200 and calls:
        them = "it" if calls == 1 else "them"
        detail = (
            f"{plural(calls, 'call')} since the service started named no rollout, so no verdict "
            f"counts {them}: "
            f"use the base URL {service}/r/ROLLOUT/UPSTREAM/…, or send the header x-truezero-key "
            "or x-truezero-rollout"
        )
        yield _fail("rollouts", detail)
    unread = sum(int(float(count)) for count in _UNREAD.findall(text))
    if answer.status == 200 and unread:
        yield _fail(
            "paths",
            f"{plural(unread, 'call')} since the service started asked a model at a path that is "
            "not read: the API of these calls is `unread` and the path",
        )


def _state(model: type[M], url: str, path: str, http: httpx.Client) -> M:
    """Read a service's state, also of one that is not ready, and without our token.

    Raises:
        ServiceError: it is unreachable, or no truezero service.
    """
    try:
        answer = _get(http, url + path)
    except httpx.HTTPError as error:
        raise rest.no_answer(url, error) from error
    except ForeignError as error:
        raise not_truezero(url, 200) from error
    return rest.parse(model, answer.body, path=path, url=url, status=answer.status)


def _get(http: httpx.Client, url: str, headers: Mapping[str, str] | None = None) -> rest.Answer:
    """Ask for what another program answers, and read it within bounds.

    Raises:
        httpx.HTTPError: there is no answer.
        ForeignError: it is too large.
    """
    with http.stream("GET", url, headers=headers) as response:
        check_encoding(response.headers.get("content-encoding"))
        body = Body()
        for piece in response.iter_bytes():
            body.add(piece)
    return rest.Answer(status=response.status_code, headers=response.headers, body=body.rest())


# --- upstreams ---
#
# The checks, through the proxy, that API keys work and models exist. API keys and providers'
# messages are never repeated.


ROLE = "doctor"  # keeps these calls apart from the agent's


class _Probe:
    """Access to one upstream through the proxy; ``held``: by a key that the service may hold."""

    def __init__(
        self,
        upstream: str,
        client: Client,
        rollout: models.RolloutRegistered,
        environment: Mapping[str, str],
        http: httpx.Client,
    ) -> None:
        self.upstream, self.provider = upstream, provider_of(upstream)
        self._client, self._rollout, self._http = client, rollout, http
        access, key = rollout.roles[ROLE], _key(self.provider, environment)
        self.held = key is None
        scheme = "Bearer " if self.provider.header == "authorization" else ""
        self._headers = {self.provider.header: scheme + (key or access.key), **self.provider.extra}
        self._base_url = access.base_urls[upstream]

    def get(self, path: str) -> rest.Answer:
        return _get(self._http, self._base_url + path, self._headers)

    def cause(self, answer: rest.Answer) -> str | None:
        """Return why a call failed, as the service recorded it."""
        recorded = {call.id: call.subcategory for call in self._client.exchanges(self._rollout.id)}
        return recorded.get(answer.headers.get("x-truezero-exchange", ""))


def examine_upstreams(
    client: Client,
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
        yield _skip("keys", detail)
    for upstream in dict.fromkeys((*named, *keyed)):
        if upstream not in rollout.base_urls:
            yield _fail(upstream, "unknown upstream, or its address is not configured")
            continue
        probe = _Probe(upstream, client, rollout, environment, http)
        yield from _check_upstream(probe, [m for name, m in wanted.models if name == upstream])


def _key(provider: ProbedProvider, environment: Mapping[str, str]) -> str | None:
    return next((environment[name] for name in provider.keys if environment.get(name)), None)


def _check_upstream(probe: _Probe, named: Sequence[str]) -> Iterator[DoctorCheck]:
    name = f"{probe.upstream} key"
    try:
        answer = probe.get(probe.provider.list)
    except httpx.HTTPError as error:
        yield _fail(name, f"no answer ({type(error).__name__})")
        return
    except ForeignError as error:
        yield _fail(name, str(error))
        return
    if answer.status != 200:
        yield _fail(name, _explain(answer, probe))
        return
    there = _names(answer)
    count = f"; {plural(len(there), 'model')}" if there else ""
    held = "the service's key" if probe.held else "the key"
    yield _ok(name, f"{held} is valid{count}")
    for model in named:
        yield _model(probe, model, there)


def _explain(answer: rest.Answer, probe: _Probe) -> str:
    """Explain a failure by the cause that the service recorded, without quoting the provider."""
    refusal = answer.headers.get("x-truezero-refusal")
    if refusal is not None:
        return f"rejected by the proxy ({refusal}): {_json(answer).get('detail', '')}"
    cause = probe.cause(answer)
    if cause == "auth" and probe.held:
        fix = (
            f"no valid key in the environment ({' or '.join(probe.provider.keys)}) nor in the "
            f"service ({_held_key(probe.upstream)})"
        )
    else:
        fix = _PROBE_FIXES.get(cause or "", "unexpected response of the provider")
    return f"HTTP {answer.status}: {fix}"


# What to do where a list of models fails: it names no model, and its request is ours.
_PROBE_FIXES: Mapping[str, str] = {
    **FIXES,
    "model_not_found": "not found: check the upstream's address and its path prefix",
    "rejected_request": "the provider rejects the request: check the upstream's address",
    "provider_error": "provider error: try again later",
}


def _names(answer: rest.Answer) -> frozenset[str]:
    """Return the models of a list: OpenAI and Anthropic `data[].id`, Gemini `models[].name`."""
    body = _json(answer)
    items = body.get("data") or body.get("models") or []
    entries = [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []
    names = [str(item.get("id") or item.get("name") or "") for item in entries]
    return frozenset(name.removeprefix("models/") for name in names if name)


def _json(answer: rest.Answer) -> dict[str, Any]:
    """Return an answer's object; a list as the ``data`` of one, what is neither as an empty one."""
    try:
        body = parse(answer.body)
    except ForeignError:
        return {}
    body = {"data": body} if isinstance(body, list) else body
    return body if isinstance(body, dict) else {}


def _model(probe: _Probe, model: str, there: frozenset[str]) -> DoctorCheck:
    """Check whether a model is listed, or found by name: aliases are not listed."""
    name = f"{probe.upstream}/{model}"
    if model in there:
        return _ok(name, "the model exists")
    if probe.provider.one is not None:
        try:
            answer = probe.get(probe.provider.one.format(model=quote(model, safe="")))
        except httpx.HTTPError as error:
            return _fail(name, f"no answer ({type(error).__name__})")
        except ForeignError as error:
            return _fail(name, str(error))
        if answer.status == 200:
            return _ok(name, "the model exists (alias)")
    elif not there:
        detail = "the provider's list of models is public: use --ask to check access"
        return _skip(name, detail)
    near = [one for one in sorted(there) if model.lower() in one.lower()][:3]
    hint = f"; did you mean {', '.join(near)}?" if near else ""
    return _fail(name, f"the account has no such model{hint}")


# --- references ---
#
# The proxy's own question, as it is asked beside an untrusted agent's failure.


def ask_reference(client: Client, upstream: str, model: str) -> DoctorCheck:
    """Have the service ask a model its own question, with its own key."""
    name = f"{upstream}/{model} reference"
    try:
        series = client.ask_reference(upstream, model)
    except ServiceError as error:
        return _fail(name, str(error))
    if series.not_run is not None:
        reason = _NOT_RUN.get(series.not_run, f"it could not be asked ({series.not_run})")
        told = f"nothing was asked: {reason.format(variable=_held_key(upstream))}"
        return _fail(name, told)
    answered = sum(call.answered is True for call in series.calls)
    check = _ok if answered == len(series.calls) else _fail
    asked = f"{answered} of {plural(len(series.calls), 'question')} answered"
    return check(name, "; ".join([asked, *_ended(series.calls[-1]), _evidence(series)]))


def key_sources(client: Client) -> Iterator[DoctorCheck]:
    """Say which setting each key is from that a lane was called with in the last hour."""
    try:
        lanes = client.status().items
    except ServiceError as error:
        yield _fail("keys in use", str(error))
        return
    for key, source in {lane.key: lane.key_from for lane in lanes if lane.key}.items():
        setting = source or "a setting that has another key now"
        yield _ok(f"source of {key}", setting)


def _held_key(upstream: str) -> str:
    return f"TRUEZERO_KEY_{upstream.upper().replace('-', '_')}"


_NOT_RUN: Mapping[str, str] = {
    "no_key": "the service holds no key for this upstream: set {variable} where it runs",
    "off": "reference_calls is off",
    "too_dear": "16 tokens of this model cost over $0.01",
    "websocket_only": "this model was only ever answered over a WebSocket",
    "failed_to_run": "no answered call tells where this upstream is asked: let an agent call it",
}


def _ended(last: models.ReferenceCall) -> Iterator[str]:
    """Say how a series ended, where its last question was not answered, and how to fix it."""
    if last.answered:
        return
    if last.answered is None:
        yield "a cache, another model or a fallback answered: that proves nothing"
        return
    status = "no answer" if last.status is None else f"HTTP {last.status}"
    yield f"failed as {last.subcategory} ({status})"
    if last.explained:
        yield "the question itself was refused: an agent's failure stays unexplained here"
    if (fix := FIXES.get(last.subcategory or "")) is not None:
        yield fix


def _evidence(series: models.ReferenceSeries) -> str:
    calls = series.calls
    tokens = [(call.input_tokens or 0) + (call.output_tokens or 0) for call in calls]
    costs = [call.cost_usd for call in calls if call.cost_usd is not None]
    spent = plural(sum(tokens), "token") + (f", ${sum(costs):.6f}" if costs else "")
    ids = ", ".join(call.exchange_id for call in calls)
    return f"asked by {series.api}, {spent}; exchanges of _reference: {ids}"


# --- all checks ---
#
# Each runs before those that depend on it. No model is called unless asked for.


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
    yield installed()
    greeted = reachable(client)
    yield greeted
    if greeted.health == "failed":
        return
    mounts = dict.fromkeys(rest.DIRECT)
    headers = {"accept-encoding": "gzip, deflate"}  # as read within bounds
    with httpx.Client(
        timeout=_TIMEOUT_S, transport=transport, mounts=mounts, headers=headers
    ) as http:
        yield ready(client.url, http)
        yield from uncounted(client.url, http)
        yield from base_urls(environment, client.url, http)
        try:
            rollout = client.register(
                id=f"{ROLE}-{secrets.token_hex(4)}", metadata={"doctor": True}, roles=[ROLE]
            )
        except ServiceError as error:
            yield _fail("token", str(error))
            return
        yield _ok("token", "accepted by the control plane")
        try:
            yield from examine_upstreams(client, rollout, wanted, environment, http)
        finally:
            with suppress(ServiceError):
                client.report(rollout.id, status="setup_failed", prompts_executed=0)
        if wanted.ask:
            for upstream, model in wanted.models:
                yield ask_reference(client, upstream, model)
        yield from key_sources(client)
