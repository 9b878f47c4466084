"""`truezero doctor`: can the proxy be reached from here, is each key alive and each model there.

It asks no model anything unless it is told to, and prints no key and no provider's sentence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import metadata, util
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote, urlsplit

import httpx

from truezero import models
from truezero.sdk.client import Client, ServiceError

ROLE = "doctor"  # a role of its own: nothing it asks is the agent's

_TIMEOUT_S = 20.0
_DIRECT = ("all://127.0.0.1", "all://localhost", "all://[::1]")
# What a package called `proxy` must have to be ours.
_SERVICE_PARTS = ("relay/call.py", "capture/observer.py")

Health = Literal["ok", "failed", "skipped"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DoctorCheck:
    """One thing that was looked at; ``told`` says what was found, and what to do."""

    name: str
    health: Health
    told: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbedProvider:
    """How to ask one provider for nothing.

    ``keys``: the variables its clients take a key from. ``header``: where it is shown.
    ``list``: the path that only a living key may read. ``one``: a model by its name.
    ``ask``: the smallest inference there is, path and body.
    """

    keys: tuple[str, ...]
    header: str = "authorization"
    extra: Mapping[str, str] = field(default_factory=dict)
    list: str = "/models"
    one: str | None = "/models/{model}"
    ask: Callable[[str], tuple[str, dict[str, Any]]] = lambda model: (
        "/chat/completions",
        {"model": model, "messages": [{"role": "user", "content": "Say ok."}]},
    )


def _ask_anthropic(model: str) -> tuple[str, dict[str, Any]]:
    asked = {"role": "user", "content": "Say ok."}
    return "/v1/messages", {"model": model, "max_tokens": 16, "messages": [asked]}


def _ask_gemini(model: str) -> tuple[str, dict[str, Any]]:
    body = {"contents": [{"role": "user", "parts": [{"text": "Say ok."}]}]}
    return f"/v1beta/models/{quote(model, safe='')}:generateContent", body


# Those that are not simply OpenAI-like. docs.claude.com/en/api/models-list,
# ai.google.dev/api/models; OpenRouter lists its models to anybody, and tells of a key at
# /key (openrouter.ai/docs/api-reference/limits).
_PROVIDERS: Mapping[str, ProbedProvider] = {
    "openai": ProbedProvider(keys=("OPENAI_API_KEY",)),
    "anthropic": ProbedProvider(
        keys=("ANTHROPIC_API_KEY",),
        header="x-api-key",
        extra={"anthropic-version": "2023-06-01"},
        list="/v1/models?limit=1000",
        one="/v1/models/{model}",
        ask=_ask_anthropic,
    ),
    "gemini": ProbedProvider(
        keys=("GEMINI_API_KEY", "GOOGLE_API_KEY"),
        header="x-goog-api-key",
        list="/v1beta/models?pageSize=1000",
        one="/v1beta/models/{model}",
        ask=_ask_gemini,
    ),
    "openrouter": ProbedProvider(keys=("OPENROUTER_API_KEY",), list="/key", one=None),
}


def _provider(upstream: str) -> ProbedProvider:
    """How to ask an upstream: its own row, else as one asks whoever is like OpenAI."""
    variable = f"{upstream.upper().replace('-', '_').replace('.', '_')}_API_KEY"
    return _PROVIDERS.get(upstream) or ProbedProvider(keys=(variable,))


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What to look at beside the service.

    ``upstreams``: asked even where no key of theirs is in the environment: the service may
    hold one. ``models``: ``upstream/model``. ``ask``: ask each model for a word.
    """

    upstreams: tuple[str, ...] = ()
    models: tuple[tuple[str, str], ...] = ()
    ask: bool = False


def wanted(upstreams: Sequence[str], named: Sequence[str], *, ask: bool) -> Wanted:
    """What to look at, from a command line.

    Raises:
        ValueError: a model without its upstream.
    """
    pairs = [name.partition("/") for name in named]
    for upstream, _, model in pairs:
        if not (upstream and model):
            raise ValueError(f"--model {upstream!r}: write UPSTREAM/MODEL, as in openai/gpt-5")
    found = tuple((upstream, model) for upstream, _, model in pairs)
    return Wanted(upstreams=tuple(upstreams), models=found, ask=ask)


def examine(
    client: Client,
    wanted: Wanted,
    environment: Mapping[str, str],
    *,
    transport: httpx.BaseTransport | None = None,
) -> Iterator[DoctorCheck]:
    """Look at everything, in the order in which one thing needs the other.

    Arguments:
        environment: where base URLs and keys are looked for.
        transport: for tests.
    """
    yield _package()
    greeted = _service(client)
    yield greeted
    if greeted.health == "failed":
        return
    yield _ready(client, transport)
    with _http(transport) as http:
        yield from _base_urls(environment, client.url, http)
        try:
            rollout = client.register(metadata={"doctor": True})
        except ServiceError as error:
            yield _token(error)
            return
        yield DoctorCheck(name="token", health="ok", told="the control plane lets us in")
        try:
            yield from _upstreams(rollout, wanted, environment, http)
        finally:
            with suppress(ServiceError):
                client.report(rollout.id, status="setup_failed", prompts_executed=0)


def _http(transport: httpx.BaseTransport | None) -> httpx.Client:
    """A client that reaches loopback directly, whatever HTTP_PROXY says."""
    return httpx.Client(timeout=_TIMEOUT_S, transport=transport, mounts=dict.fromkeys(_DIRECT))


# --- this machine ----------------------------------------------------------------------------


def _package() -> DoctorCheck:
    """Whether the package called `proxy` is the service: PyPI has another of that name."""
    found = util.find_spec("proxy")
    origin = Path(found.origin) if found is not None and found.origin else None
    if origin is None:
        return DoctorCheck(
            name="package", health="failed",
            told="the package `proxy` is not importable: pip install 'truezero[server]'",
        )  # fmt: skip
    others = [name for name in owners("proxy") if name != "truezero"]
    ours = all((origin.parent / part).is_file() for part in _SERVICE_PARTS)
    if ours and not others:
        return DoctorCheck(
            name="package", health="ok", told=f"`proxy` is truezero's, in {origin.parent}"
        )
    by = f"{' and '.join(others)} owns it too" if others else "it is not truezero's"
    fix = f"pip uninstall {others[0]}, then reinstall truezero" if others else "remove or rename it"
    return DoctorCheck(
        name="package", health="failed", told=f"`proxy` is {origin}, and {by}: {fix}"
    )


def owners(package: str) -> list[str]:
    """The installed distributions that bring an import package of this name."""
    return sorted(set(metadata.packages_distributions().get(package, ())))


# --- the service -----------------------------------------------------------------------------


def _service(client: Client) -> DoctorCheck:
    try:
        alive = client.greet()
    except ServiceError as error:
        return DoctorCheck(name="service", health="failed", told=str(error))
    return DoctorCheck(
        name="service", health="ok", told=f"truezero {alive.version} at {client.url}"
    )


def _ready(client: Client, transport: httpx.BaseTransport | None) -> DoctorCheck:
    with _http(transport) as http:
        try:
            answer = http.get(f"{client.url}/readyz")
            ready = models.Ready.model_validate(answer.json())
        except (httpx.HTTPError, ValueError) as error:
            told = f"/readyz is not answered ({type(error).__name__})"
            return DoctorCheck(name="ready", health="failed", told=told)
    if ready.status == "ready":
        told = "it writes what it records"
        if ready.gaps:
            told += f"; {ready.gaps} call(s) since its start are missing"
        return DoctorCheck(name="ready", health="ok", told=told)
    missing = "database" if not ready.database else "recorder"
    told = f"its {missing} does not work: verdicts are undecided until it does; see its log"
    return DoctorCheck(name="ready", health="failed", told=told)


def _token(error: ServiceError) -> DoctorCheck:
    told = str(error)
    if error.status == 401:
        told = "the token is wrong or missing: set TRUEZERO_ADMIN_TOKEN to the service's own"
    return DoctorCheck(name="token", health="failed", told=told)


def _base_urls(
    environment: Mapping[str, str], service: str, http: httpx.Client
) -> Iterator[DoctorCheck]:
    """Whether the variables that agents read lead to the service, from where we stand."""
    names = [name for name in environment if name.endswith(("_BASE_URL", "_API_BASE"))]
    led = sorted(name for name in names if environment[name])
    if not led:
        told = "no variable that agents read is set; `truezero run` sets them"
        yield DoctorCheck(name="base URLs", health="skipped", told=told)
    for name in led:
        yield _base_url(name, environment[name], service, http)


def _base_url(name: str, url: str, service: str, http: httpx.Client) -> DoctorCheck:
    parts = urlsplit(url)
    origin = f"{parts.scheme}://{parts.netloc}"
    try:
        answer = http.get(f"{origin}/healthz")
        models.Alive.model_validate(answer.json())
    except httpx.HTTPError as error:
        told = f"{origin} cannot be reached from here ({type(error).__name__})"
        return DoctorCheck(name=name, health="failed", told=told)
    except ValueError:
        told = f"{origin} is no truezero service: calls go past the proxy and are not recorded"
        return DoctorCheck(name=name, health="failed", told=told)
    other = "" if origin == service else " (another address than ours)"
    return DoctorCheck(name=name, health="ok", told=f"leads to the service at {origin}{other}")


# --- keys and models -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _Line:
    """How to ask one upstream through the proxy."""

    upstream: str
    provider: ProbedProvider
    base_url: str
    headers: Mapping[str, str]
    held: bool  # the service's own key is hoped for
    http: httpx.Client

    def get(self, path: str) -> httpx.Response:
        return self.http.get(self.base_url + path, headers=dict(self.headers))

    def post(self, path: str, body: dict[str, Any]) -> httpx.Response:
        return self.http.post(self.base_url + path, json=body, headers=dict(self.headers))


def _upstreams(
    rollout: models.RolloutRegistered,
    wanted: Wanted,
    environment: Mapping[str, str],
    http: httpx.Client,
) -> Iterator[DoctorCheck]:
    named = dict.fromkeys((*wanted.upstreams, *(upstream for upstream, _ in wanted.models)))
    keyed = [one for one in rollout.base_urls if _key(_provider(one), environment)]
    if not (named or keyed):
        told = "no key is in the environment; name what the service holds by --upstream"
        yield DoctorCheck(name="keys", health="skipped", told=told)
    for upstream in dict.fromkeys((*named, *keyed)):
        if upstream not in rollout.base_urls:
            told = "the service knows no such upstream, or not its address"
            yield DoctorCheck(name=upstream, health="failed", told=told)
            continue
        line = _line(upstream, rollout, environment, http)
        yield from _examined(line, [m for name, m in wanted.models if name == upstream], wanted.ask)


def _key(provider: ProbedProvider, environment: Mapping[str, str]) -> str | None:
    return next((environment[name] for name in provider.keys if environment.get(name)), None)


def _line(
    upstream: str,
    rollout: models.RolloutRegistered,
    environment: Mapping[str, str],
    http: httpx.Client,
) -> _Line:
    provider = _provider(upstream)
    key = _key(provider, environment)
    shown = key or rollout.key
    if provider.header == "authorization":
        shown = f"Bearer {shown}"
    headers = {
        provider.header: shown,
        "x-truezero-role": ROLE,
        **dict(provider.extra),
    }
    return _Line(
        upstream=upstream,
        provider=provider,
        base_url=rollout.base_urls[upstream],
        headers=headers,
        held=key is None,
        http=http,
    )


def _examined(line: _Line, named: Sequence[str], ask: bool) -> Iterator[DoctorCheck]:
    name = f"{line.upstream} key"
    try:
        answer = line.get(line.provider.list)
    except httpx.HTTPError as error:
        yield DoctorCheck(name=name, health="failed", told=f"no answer ({type(error).__name__})")
        return
    if answer.status_code != 200:
        yield DoctorCheck(name=name, health="failed", told=_why(answer, line))
        return
    there = _names(answer)
    count = f"; {len(there)} models" if there else ""
    held = "the service's own key" if line.held else "the key"
    yield DoctorCheck(name=name, health="ok", told=f"{held} is alive{count}")
    for model in named:
        yield _model(line, model, there)
        if ask:
            yield _word(line, model)


def _why(answer: httpx.Response, line: _Line) -> str:
    """What a status means here, by our own words alone."""
    refusal = answer.headers.get("x-truezero-refusal")
    if refusal is not None:
        return f"the proxy says {refusal}: {answer.json().get('detail', '')}"
    told = _STATUS.get(answer.status_code, "the provider does not answer as it should")
    if answer.status_code in (401, 403) and line.held:
        variable = f"TRUEZERO_KEY_{line.upstream.upper().replace('-', '_')}"
        told = (
            f"no living key here ({' or '.join(line.provider.keys)}) and none at the service "
            f"({variable})"
        )
    return f"HTTP {answer.status_code}: {told}"


_STATUS: Mapping[int, str] = {
    400: "the provider refuses the key: is it this provider's, and still alive?",
    401: "the key is dead or wrong: make a new one and set it",
    402: "the account has no credit left",
    403: "the key may not do this: see the account's permissions and regions",
    404: "the path is not there: is the upstream's address right, with its prefix?",
    429: "the account is limited or empty: see its limits and its billing",
    500: "the provider is in trouble: try again later",
    503: "the provider is in trouble: try again later",
    529: "the provider is overloaded: try again later",
}


def _names(answer: httpx.Response) -> frozenset[str]:
    """Every model a list names: OpenAI-like and Anthropic `data[].id`, Gemini `models[].name`."""
    try:
        body = answer.json()
    except ValueError:
        return frozenset()
    body = {"data": body} if isinstance(body, list) else body
    items = body.get("data") or body.get("models") or [] if isinstance(body, dict) else []
    found = [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []
    names = [str(item.get("id") or item.get("name") or "") for item in found]
    return frozenset(name.removeprefix("models/") for name in names if name)


def _model(line: _Line, model: str, there: frozenset[str]) -> DoctorCheck:
    """Whether a model is listed, or known by its name: aliases are in no list."""
    name = f"{line.upstream}/{model}"
    if model in there:
        return DoctorCheck(name=name, health="ok", told="the model is there")
    if line.provider.one is not None:
        try:
            answer = line.get(line.provider.one.format(model=quote(model, safe="")))
        except httpx.HTTPError as error:
            return DoctorCheck(
                name=name, health="failed", told=f"no answer ({type(error).__name__})"
            )
        if answer.status_code == 200:
            return DoctorCheck(name=name, health="ok", told="the model is there, by its alias")
    elif not there:
        told = "the provider lists its models to anybody: only --ask can tell"
        return DoctorCheck(name=name, health="skipped", told=told)
    near = [one for one in sorted(there) if model.lower() in one.lower()][:3]
    hint = f"; did you mean {', '.join(near)}?" if near else ""
    return DoctorCheck(name=name, health="failed", told=f"this account has no such model{hint}")


def _word(line: _Line, model: str) -> DoctorCheck:
    """Ask a model for a word: what a list cannot show, an empty account, shows here."""
    name = f"{line.upstream}/{model} asked"
    path, body = line.provider.ask(model)
    try:
        answer = line.post(path, body)
    except httpx.HTTPError as error:
        return DoctorCheck(name=name, health="failed", told=f"no answer ({type(error).__name__})")
    if answer.status_code == 200:
        return DoctorCheck(name=name, health="ok", told="it answers")
    return DoctorCheck(name=name, health="failed", told=_why(answer, line))


def failed(checks: Sequence[DoctorCheck]) -> bool:
    """Whether anything is wrong."""
    return any(check.health == "failed" for check in checks)
