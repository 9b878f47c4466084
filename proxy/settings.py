"""Every setting of the service: its name, type, default and meaning, read once at start.

It is read by `app` and the command line only; everything else is handed values.
"""

from __future__ import annotations

import logging
import re
import tomllib
from collections.abc import Mapping
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SecretStr,
    ValidationError,
    field_validator,
    model_validator,
)

from classifier.policy import Policy
from proxy.routing import address_guard
from proxy.routing.upstreams import Upstream, allow_list, normalised

PREFIX = "TRUEZERO_"
CONFIG_FILE = "truezero.toml"

log = logging.getLogger("truezero")

# Settings of earlier releases that no longer do anything: accepted with a warning for one release.
_REMOVED = frozenset({"http_client"})
# Variables of ours that are not settings of the service: the runner's side reads them.
_RUNNERS = frozenset({"URL", "TOKEN", "CONFIG", "CORPUS"})
_UPSTREAM = re.compile(r"UPSTREAM_([A-Z0-9_]+)\Z")
_KEY = re.compile(r"KEY_([A-Z0-9_]+)\Z")


class SettingsError(ValueError):
    """One sentence that names the setting and what is wrong with it."""


class Settings(BaseModel):
    """The service's settings: flag beats environment beats `truezero.toml`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    host: str = Field("127.0.0.1", description="address to listen on")
    port: int = Field(8383, ge=0, le=65535, description="port to listen on; 0 takes a free one")
    control_port: int = Field(
        0, ge=0, le=65535, description="port of its own for the control plane; 0: the same port"
    )
    control_host: str | None = Field(
        None, description="address of that port; by default the same address"
    )
    workers: int = Field(1, ge=1, le=64, description="processes that share the port")
    database_url: str = Field(
        "truezero.db",
        description="SQLite file, or `postgresql://user:password@host/name`",
        min_length=1,
    )
    spill_dir: str | None = Field(
        None,
        description="folder for what the database does not take; by default the SQLite file's, "
        "with PostgreSQL `truezero-spill` in the working directory",
    )
    admin_token: SecretStr | None = Field(
        None, description="opens the control plane; needed beyond loopback"
    )
    public_url: str | None = Field(
        None,
        pattern=r"^https?://[^/\s]+(/[^\s?#]*)?$",
        description="how agents reach the proxy; by default as the runner that registers does",
    )
    require_registration: bool = Field(
        default=False, description="serve only rollouts that POST /rollouts announced"
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="least level that is logged; info has a line for each call"
    )
    log_format: Literal["json", "console"] | None = Field(
        None, description="`json` or `console`; by default `console` on a terminal, else `json`"
    )
    otlp_endpoint: str | None = Field(
        None,
        pattern=r"^https?://[^/\s]+(/[^\s?#]*)?$",
        description="collector of OpenTelemetry spans (OTLP over HTTP); needs the extra `otel`",
    )
    body_limit: int = Field(
        64 * 1024 * 1024, ge=1, description="largest request body, in bytes; above it 413"
    )
    max_concurrent_calls: int = Field(
        20_000, ge=0, description="calls under way at once in one process, above it 503; 0: any"
    )
    max_concurrent_calls_per_rollout: int = Field(
        0, ge=0, description="the same for each rollout; 0: any number"
    )
    registrations_per_s: float = Field(
        1000.0,
        ge=0,
        description="rollouts and keys registered per second in one process, ten seconds' worth "
        "at once, above it 429; 0: any number",
    )
    connect_timeout_s: float = Field(10.0, gt=0, description="to reach an upstream, in seconds")
    read_timeout_s: float | None = Field(
        None, gt=0, description="silence of an upstream, in seconds; unlimited by default"
    )
    write_timeout_s: float | None = Field(
        None, gt=0, description="to send a part of a request, in seconds; unlimited by default"
    )
    drain_on_disconnect: bool = Field(
        default=False,
        description="read an answer on to its usage, for a minute, when its agent has left",
    )
    grace_s: float = Field(
        30.0, ge=0, description="for calls in flight to end after SIGTERM, in seconds"
    )
    breaker_threshold: int = Field(
        5, ge=0, description="equal permanent failures in a row that stop a lane; 0 disables"
    )
    max_retries: int = Field(2, ge=0, description="retries advised for a transient failure")
    retry_on_api_error: bool = Field(
        default=True, description="advise a retry of transient failures at all"
    )
    max_steps: Literal["score", "exclude"] = Field(
        "score", description="whether a rollout that ran out of steps is scored"
    )
    doomed_after: int = Field(
        2, ge=0, description="equal permanent failures that doom a rollout; 0 disables"
    )
    stall_s: float = Field(
        60.0, gt=0, description="silence after which a call its agent left was stalled, in seconds"
    )
    upstreams: dict[str, dict[str, Any]] = Field(
        default_factory=dict, description="changes to the table of upstreams"
    )
    keys: dict[str, SecretStr] = Field(
        default_factory=dict, description="real keys by upstream, put in by the proxy"
    )

    @field_validator("admin_token")
    @classmethod
    def _not_blank(cls, token: SecretStr | None) -> SecretStr | None:
        if token is not None and not token.get_secret_value().strip():
            raise ValueError("is blank: unset it, or give a token")
        return token

    @field_validator("upstreams")
    @classmethod
    def _known_upstreams(cls, changes: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
        address_guard.check(allow_list(changes))
        return changes

    @model_validator(mode="after")
    def _ports_apart(self) -> Self:
        if self.control_port and self.port in (0, self.control_port):
            raise ValueError("control_port: must be another than port, which then cannot be 0")
        if self.control_host is not None and "control_port" not in self.model_fields_set:
            raise ValueError("control_host: needs a control_port")
        return self

    @property
    def addresses(self) -> tuple[tuple[str, int], ...]:
        """Where to listen, as host and port: for agents first."""
        control = (self.control_host or self.host, self.control_port)
        return ((self.host, self.port), control) if self.control_port else ((self.host, self.port),)

    @property
    def policy(self) -> Policy:
        """How to judge, retry and stop."""
        return Policy(
            stall_s=self.stall_s,
            doomed_after=self.doomed_after,
            max_steps=self.max_steps,
            max_retries=self.max_retries,
            retry_on_api_error=self.retry_on_api_error,
            breaker_threshold=self.breaker_threshold,
        )

    def allow_list(self) -> dict[str, Upstream]:
        """The upstreams that agents may reach, by name."""
        return allow_list(self.upstreams)

    def real_keys(self, environment: Mapping[str, str]) -> dict[str, str]:
        """The keys the proxy puts in, by upstream: ``TRUEZERO_KEY_<NAME>``, else ``key_env``."""
        found = {
            name: environment[upstream.key_env]
            for name, upstream in self.allow_list().items()
            if upstream.key_env and environment.get(upstream.key_env)
        }
        return found | {name: key.get_secret_value() for name, key in self.keys.items()}

    @property
    def exposed(self) -> str | None:
        """An address at which others than this machine can reach the service, if any."""
        return next((host for host, _ in self.addresses if not _is_loopback(host)), None)


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def load(
    flags: Mapping[str, Any],
    environment: Mapping[str, str],
    config: Path | None = None,
) -> Settings:
    """Read the settings; flag beats environment beats file.

    Arguments:
        flags: as given on the command line; a None was not given.
        config: a `truezero.toml`; by default the one in the working directory, if any.

    Raises:
        SettingsError: an unknown name, or a value that cannot be.
    """
    file = _from_file(config or _named_file(environment))
    env = _from_environment(environment)
    given = {name: value for name, value in flags.items() if value is not None}
    merged = _without_removed({**file, **env, **given})
    for table in ("upstreams", "keys"):
        if table in file and table in env:
            merged[table] = _merged(file[table], env[table])
    try:
        settings = Settings(**merged)
    except ValidationError as error:
        raise SettingsError(_sentence(error, env)) from None
    _check_exposure(settings)
    return settings


def _check_exposure(settings: Settings) -> None:
    if settings.exposed and settings.admin_token is None:
        raise SettingsError(
            f"listening on {settings.exposed} lets others in, so TRUEZERO_ADMIN_TOKEN must be set "
            "(any long random text), or listen on 127.0.0.1"
        )


def _named_file(environment: Mapping[str, str]) -> Path | None:
    if named := environment.get(PREFIX + "CONFIG"):
        return Path(named)
    here = Path(CONFIG_FILE)
    return here if here.is_file() else None


def _from_file(path: Path | None) -> dict[str, Any]:
    if path is None:
        return {}
    try:
        return _lower_names(tomllib.loads(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise SettingsError(f"{path} cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path} is not TOML: {error}") from None


def _lower_names(table: dict[str, Any]) -> dict[str, Any]:
    """Names of upstreams in one spelling; `[policy]` is a heading, not a level."""
    if isinstance(table.get("policy"), dict):
        table |= table.pop("policy")
    for name in ("upstreams", "keys"):
        if isinstance(table.get(name), dict):
            table[name] = {normalised(key): value for key, value in table[name].items()}
    return table


def _from_environment(environment: Mapping[str, str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for variable, value in environment.items():
        if not variable.startswith(PREFIX):
            continue
        name = variable.removeprefix(PREFIX)
        if named := _UPSTREAM.match(name):
            found.setdefault("upstreams", {})[normalised(named[1])] = {"url": value}
        elif named := _KEY.match(name):
            found.setdefault("keys", {})[normalised(named[1])] = value
        elif name.lower() in Settings.model_fields or name.lower() in _REMOVED:
            found[name.lower()] = value
        elif name not in _RUNNERS:
            raise SettingsError(f"{variable} is no setting of truezero (see the README's table)")
    return {name: value for name, value in found.items() if value != ""}


def _without_removed(given: dict[str, Any]) -> dict[str, Any]:
    """The settings that still exist; one warning for each that does not."""
    for name in sorted(_REMOVED & given.keys()):
        log.warning("setting %s (%s) was removed and has no effect", name, PREFIX + name.upper())
    return {name: value for name, value in given.items() if name not in _REMOVED}


def _merged(file: Any, env: dict[str, Any]) -> dict[str, Any]:
    merged = dict(file) if isinstance(file, dict) else {}
    for name, change in env.items():
        before = merged.get(name)
        both = isinstance(before, dict) and isinstance(change, dict)
        merged[name] = {**before, **change} if both and before is not None else change
    return merged


def _sentence(error: ValidationError, env: Mapping[str, Any]) -> str:
    first = error.errors(include_url=False)[0]
    if not first["loc"]:  # of no one setting: the sentence names those it is about
        return str(first["msg"]).removeprefix("Value error, ")
    name = ".".join(str(part) for part in first["loc"])
    shown = PREFIX + name.upper() if name in env else name
    if first["type"] == "extra_forbidden":
        return f"{shown} is no setting of truezero (see the README's table)"
    message = first["msg"].removeprefix("Value error, ")
    return f"{shown}: {message[0].lower()}{message[1:]}"
