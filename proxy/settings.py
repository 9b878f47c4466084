"""Settings of the service: name, type, default and meaning of each, read once at start."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import (
    ConfigDict,
    Field,
    PrivateAttr,
    SecretStr,
    TypeAdapter,
    ValidationError,
    field_validator,
    model_validator,
)

from proxy.policy_settings import PolicySettings, seconds
from proxy.routing import addresses as address_guard
from proxy.routing import addresses as own_addresses
from proxy.routing.addresses import OwnAddresses
from proxy.routing.upstreams import LOCAL, Upstream, allow_list
from proxy.settings_sources import (
    PREFIX,
    SettingsError,
    from_environment,
    from_file,
    from_token_file,
    merged_tables,
    named_file,
)
from proxy.tls_settings import TlsSettings
from proxy.webhook_settings import WebhookSettings

# Settings of the last release that are accepted for one more, and what to do instead.
_DEPRECATED: Mapping[str, str] = {
    "http_client": "it has no effect, remove it",
    "retry_on_api_error": "use max_retries = 0 to disable retries",
}


class Settings(PolicySettings, WebhookSettings, TlsSettings):
    """The service's settings: flags override the environment, which overrides `truezero.toml`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    host: str = Field("127.0.0.1", description="address to listen on")
    port: int = Field(8383, ge=0, le=65535, description="port to listen on; 0 picks a free one")
    control_port: int = Field(
        0, ge=0, le=65535, description="separate port for the control plane; 0: same as `port`"
    )
    control_host: str | None = Field(
        None, description="address of the control plane's port; defaults to `host`"
    )
    control_process: bool = Field(
        False, description="serve `control_port` in a process of its own, beside the workers"
    )
    workers: int = Field(1, ge=1, le=64, description="number of worker processes")
    database_url: str = Field(
        "truezero.db",
        description="SQLite file, or `postgresql://user:password@host/name`",
        min_length=1,
    )
    spill_dir: str | None = Field(
        None,
        description="folder for calls recorded while the database is unavailable; defaults to the "
        "SQLite file's folder, with PostgreSQL to `truezero-spill` in the working directory",
    )
    admin_token: SecretStr | None = Field(
        None, description="token for the control plane; required to listen beyond loopback"
    )
    admin_token_file: str | None = Field(
        None,
        description="file that holds the admin token where `admin_token` is not set; "
        "`truezero serve --make-token` makes one",
    )
    dashboard_url: str | None = Field(
        None,
        pattern=r"^https?://[^/\s]+(/[^\s?#]*)?$",
        description="base URL in sign-in links; defaults to `public_url`, else to where the "
        "control plane listens",
    )
    public_url: str | None = Field(
        None,
        pattern=r"^https?://[^/\s]+(/[^\s?#]*)?$",
        description="base URL handed to agents; defaults to the URL of the registration request",
    )
    require_registration: bool = Field(
        default=False, description="serve only rollouts registered with `POST /rollouts`"
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="minimum level that is logged; `info` logs one line per call"
    )
    log_format: Literal["json", "console"] | None = Field(
        None, description="`json` or `console`; defaults to `console` on a terminal, else `json`"
    )
    otlp_endpoint: str | None = Field(
        None,
        pattern=r"^https?://[^/\s]+(/[^\s?#]*)?$",
        description="OpenTelemetry collector for spans (OTLP over HTTP); requires the extra `otel`",
    )
    body_limit: int = Field(
        64 * 1024 * 1024, ge=1, description="maximum request body, in bytes; larger ones get 413"
    )
    max_concurrent_calls: int = Field(
        20_000,
        ge=0,
        description="maximum concurrent calls per process; more get 503; 0: unlimited",
    )
    max_concurrent_calls_per_rollout: int = Field(
        256, ge=0, description="maximum concurrent calls per rollout and process; 0: unlimited"
    )
    max_connections: int = Field(
        0,
        ge=0,
        description="maximum connections per process; 0: as many as the limit of open files allows",
    )
    max_connections_per_address: int = Field(
        0, ge=0, description="maximum connections per client address and process; 0: unlimited"
    )
    head_timeout_s: float = seconds(30.0, "time for a request's head to arrive")
    body_timeout_s: float = seconds(60.0, "maximum silence within a request's body")
    idle_timeout_s: float = seconds(75.0, "how long a connection may be idle between calls")
    registrations_per_s: float = Field(
        1000.0,
        ge=0,
        description="maximum registrations of rollouts and keys per second and process, with "
        "bursts of ten times as many; more get 429; 0: unlimited",
    )
    connect_timeout_s: float = seconds(10.0, "timeout for connecting to an upstream")
    read_timeout_s: float | None = Field(
        None, gt=0, description="maximum silence of an upstream, in seconds; unlimited by default"
    )
    write_timeout_s: float | None = Field(
        None,
        gt=0,
        description="timeout for sending a part of a request, in seconds; unlimited by default",
    )
    drain_on_disconnect: bool = Field(
        default=False,
        description="when an agent disconnects, read the response for up to 60 s for its usage",
    )
    grace_s: float = Field(
        30.0, ge=0, description="time for calls in flight to finish after SIGTERM, in seconds"
    )
    outcome_grace_s: float = seconds(2.0, "time for open calls once their rollout ends", ge=0)
    caller_keys: Literal["replace", "pass"] | None = Field(
        None,
        description="where the operator has a key: `replace` puts it in place of whatever an agent "
        "shows, `pass` lets an agent's own key through; defaults to `replace` with an "
        "`admin_token`, else `pass`",
    )
    operator_key_paths: Literal["model_calls", "any"] = Field(
        "model_calls",
        description="paths that the operator's key opens, and with an `admin_token` servers that "
        "ask for none: `model_calls`, or `any` (files, batches, a server's own management and "
        "whatever else rollouts would share)",
    )
    upstreams: dict[str, dict[str, Any]] = Field(
        default_factory=dict, description="additions and changes to the table of upstreams"
    )
    keys: dict[str, SecretStr] = Field(
        default_factory=dict, description="real keys by upstream, added to calls by the proxy"
    )

    _deprecated: tuple[str, ...] = PrivateAttr(())

    @field_validator("admin_token")
    @classmethod
    def _not_blank(cls, token: SecretStr | None) -> SecretStr | None:
        if token is not None and not token.get_secret_value().strip():
            raise ValueError("must not be blank")
        return token

    @field_validator("upstreams")
    @classmethod
    def _known_upstreams(cls, changes: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
        address_guard.check_addresses(allow_list(changes))
        return changes

    @model_validator(mode="after")
    def _fit_together(self) -> Self:
        _check_ports(self)
        own_addresses.check_not_own(self.allow_list().values(), self.own_addresses())
        return self

    @property
    def addresses(self) -> tuple[tuple[str, int], ...]:
        """The addresses to listen on, as host and port; the agents' first."""
        control = (self.control_host or self.host, self.control_port)
        return ((self.host, self.port), control) if self.control_port else ((self.host, self.port),)

    @property
    def separate_control(self) -> bool:
        """Whether the control plane has a process of its own."""
        return self.control_process and bool(self.control_port)

    def own_addresses(self, is_ours: Callable[[str], bool] = lambda _: False) -> OwnAddresses:
        """Return where the service listens; ``is_ours`` tells this machine's addresses."""
        return OwnAddresses(listening=self.addresses, public_url=self.public_url, is_ours=is_ours)

    @property
    def warnings(self) -> tuple[str, ...]:
        """One sentence for each deprecated setting that is set."""
        return tuple(
            f"setting {name} ({PREFIX}{name.upper()}) is deprecated: {_DEPRECATED[name]}"
            for name in self._deprecated
        )

    @property
    def replaces_keys(self) -> bool:
        """Whether the operator's keys take the place of what agents show."""
        default = "pass" if self.admin_token is None else "replace"
        return (self.caller_keys or default) == "replace"

    def allow_list(self) -> dict[str, Upstream]:
        """Return the upstreams that agents may reach, by name."""
        return _reachable(self)

    def real_keys(self, environment: Mapping[str, str]) -> dict[str, str]:
        """Return the real keys by upstream: ``TRUEZERO_KEY_<NAME>``, else ``key_env``."""
        by_variable = {
            name: environment[upstream.key_env]
            for name, upstream in self.allow_list().items()
            if upstream.key_env and environment.get(upstream.key_env)
        }
        return by_variable | {name: key.get_secret_value() for name, key in self.keys.items()}

    @property
    def exposed(self) -> str | None:
        """An address at which other machines can reach the service, if any."""
        return next((host for host, _ in self.addresses if not _is_loopback(host)), None)


def _check_ports(settings: Settings) -> None:
    if settings.control_port and settings.port in (0, settings.control_port):
        raise ValueError("control_port: must differ from port, and port must not be 0")
    if settings.control_host is not None and "control_port" not in settings.model_fields_set:
        raise ValueError("control_host: requires control_port")
    if settings.control_process and "control_port" not in settings.model_fields_set:
        raise ValueError("control_process: requires control_port")


def _reachable(settings: Settings) -> dict[str, Upstream]:
    """Return the allow-list.

    Built-in upstreams on loopback are there where they are named, or where only this machine's
    one user can reach the service, and where they are not the service itself.
    """
    keyed: dict[str, dict[str, Any]] = {name: {} for name in settings.keys if name in LOCAL}
    named = keyed | settings.upstreams
    trusted = settings.exposed is None and settings.admin_token is None
    table = allow_list(named, local=trusted)
    for name in LOCAL - named.keys():
        if (url := table[name].url) and settings.own_addresses().named_by(url):
            table[name] = replace(table[name], url=None)
    return table


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def sources(
    environment: Mapping[str, str], config: Path | None = None
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the values that the file gives and those that the environment gives, unchecked.

    Raises:
        SettingsError: the file cannot be read, or a variable names no setting.
    """
    file = from_file(config or named_file(environment))
    return file, from_environment(environment, Settings.model_fields.keys() | _DEPRECATED)


def load(
    flags: Mapping[str, Any],
    environment: Mapping[str, str],
    config: Path | None = None,
) -> Settings:
    """Read the settings; flags override the environment, which overrides the file.

    Arguments:
        flags: options of the command line; None for those that were not given.
        config: a `truezero.toml`; defaults to the one in the working directory, if any.

    Raises:
        SettingsError: a name is unknown or a value invalid.
    """
    file, env = sources(environment, config)
    given = {name: value for name, value in flags.items() if value is not None}
    merged = {**file, **env, **given}
    deprecated = tuple(name for name in _DEPRECATED if name in merged)
    _replace_deprecated(merged)
    for table in ("upstreams", "keys"):
        if table in file and table in env:
            merged[table] = merged_tables(file[table], env[table])
    if merged.get("admin_token") is None and "admin_token_file" in merged:
        merged["admin_token"] = from_token_file(merged["admin_token_file"])
    try:
        settings = Settings(**merged)
    except ValidationError as error:
        raise SettingsError(_sentence(error, env)) from None
    _check_exposure(settings)
    settings._deprecated = deprecated
    return settings


def _check_exposure(settings: Settings) -> None:
    if settings.exposed and settings.admin_token is None:
        raise SettingsError(
            f"TRUEZERO_ADMIN_TOKEN must be set to listen on {settings.exposed}, which other "
            "machines can reach; use any long random string, or start with --make-token, or "
            "listen on 127.0.0.1"
        )


def _replace_deprecated(given: dict[str, Any]) -> None:
    """Remove deprecated settings; set what they stand for."""
    given.pop("http_client", None)
    retries = given.pop("retry_on_api_error", True)
    try:
        if not TypeAdapter(bool).validate_python(retries):
            given["max_retries"] = 0
    except ValidationError as error:
        message = error.errors(include_url=False)[0]["msg"]
        raise SettingsError(f"retry_on_api_error: {message[0].lower()}{message[1:]}") from None


def _sentence(error: ValidationError, env: Mapping[str, Any]) -> str:
    first = error.errors(include_url=False)[0]
    if not first["loc"]:  # about several settings, which the sentence names
        return str(first["msg"]).removeprefix("Value error, ")
    name = ".".join(str(part) for part in first["loc"])
    label = PREFIX + name.upper() if name in env else name
    if first["type"] == "extra_forbidden":
        return f"unknown setting {label} (see docs/reference/settings.md)"
    message = first["msg"].removeprefix("Value error, ")
    return f"{label}: {message[0].lower()}{message[1:]}"
