"""Settings of the service: name, type, default and meaning of each, read once at start."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    PrivateAttr,
    SecretStr,
    TypeAdapter,
    ValidationError,
    field_validator,
    model_validator,
)

from classifier.verdicts import Policy
from proxy.feature import settings_of_features, upstream_options
from proxy.routing.address_guard import OwnAddresses, check_addresses, check_not_own
from proxy.routing.upstreams import BUILT_IN, LOCAL, Upstream, allow_list, normalised
from truezero.mistakes import meant, message, one_slip
from truezero.printable import plural

# --- sources: a file and the environment, as tables of raw values ------------------------------


PREFIX = "TRUEZERO_"
CONFIG_FILE = "truezero.toml"

# Variables with our prefix that are no settings: the runner's, and those that compose reads.
_OTHERS = frozenset({
    "URL", "CONFIG", "CORPUS", "OUTCOMES", "OUTCOME_PATIENCE_S", "COMPILE", "REPLICAS",
})  # fmt: skip
_MISTAKEN = "TOKEN"  # which nobody reads: ADMIN_TOKEN is meant
_UPSTREAM = re.compile(r"UPSTREAM_([A-Z0-9_]+)\Z")
_KEY = re.compile(r"KEY_([A-Z0-9_]+)\Z")
_OF_UPSTREAMS = {"upstreams": "UPSTREAM", "keys": "KEY"}  # tables with a variable for each name


class SettingsError(ValueError):
    """An invalid setting: one sentence that names it and says what is wrong."""


def named_file(environment: Mapping[str, str]) -> Path | None:
    """Return the file that the environment names, else the working directory's, if any."""
    if named := environment.get(PREFIX + "CONFIG"):
        return Path(named)
    here = Path(CONFIG_FILE)
    return here if here.is_file() else None


def from_file(path: Path | None) -> dict[str, Any]:
    """Read a `truezero.toml`; no file has no settings.

    Raises:
        SettingsError: the file cannot be read.
    """
    if path is None:
        return {}
    try:
        return _lower_names(tomllib.loads(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise SettingsError(f"cannot read {path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path}: invalid TOML: {error}") from None


def from_token_file(path: Any) -> str:
    """Read the admin token from its file.

    Raises:
        SettingsError: the file cannot be read or is empty.
    """
    try:
        token = Path(str(path)).read_text(encoding="utf-8").strip()
    except OSError as error:
        raise SettingsError(f"admin_token_file: cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise SettingsError(f"admin_token_file: {path} is not text") from None
    if not token:
        raise SettingsError(f"admin_token_file: {path} is empty")
    return token


def _lower_names(table: dict[str, Any]) -> dict[str, Any]:
    """Normalise the names of upstreams, and lift the settings below `[policy]` to the top level."""
    if isinstance(table.get("policy"), dict):
        table |= table.pop("policy")
    for name in ("upstreams", "keys"):
        if isinstance(table.get(name), dict):
            table[name] = {normalised(key): value for key, value in table[name].items()}
    return table


def from_environment(environment: Mapping[str, str], known: Collection[str]) -> dict[str, Any]:
    """Read the variables of settings; an empty one is none.

    Arguments:
        known: the names of settings, in lower case.

    Raises:
        SettingsError: a variable with our prefix names no setting.
    """
    given: dict[str, Any] = {}
    tables: dict[str, dict[str, Any]] = {}
    for variable, value in environment.items():
        if not variable.startswith(PREFIX):
            continue
        name = variable.removeprefix(PREFIX)
        if named := _UPSTREAM.match(name):
            tables.setdefault("upstreams", {})[normalised(named[1])] = {"url": value}
        elif named := _KEY.match(name):
            tables.setdefault("keys", {})[normalised(named[1])] = value
        elif name.lower() in known:
            given[name.lower()] = value
        elif name not in _OTHERS and name != _MISTAKEN:
            raise SettingsError(_unknown(variable, _variables(known)))
    # A whole table as text is told as what it is: no table.
    return tables | {name: value for name, value in given.items() if value != ""}


def _variables(known: Collection[str]) -> list[str]:
    """Return the variables that are read, with those of the built-in upstreams."""
    upstreams = [_variable(table, name) for table in _OF_UPSTREAMS for name in BUILT_IN]
    return [PREFIX + name.upper() for name in (*known, *_OTHERS)] + upstreams


def _variable(table: str, name: str) -> str:
    """Return the variable of an upstream's URL or key."""
    return f"{PREFIX}{_OF_UPSTREAMS[table]}_{name.upper().replace('-', '_')}"


def _unknown(name: str, known: Collection[str]) -> str:
    return f"unknown setting {name}{meant(name, known)} (docs/reference/settings.md lists all)"


def merged_tables(file: Any, env: Mapping[str, Any]) -> dict[str, Any]:
    """Combine a table of the file with one of the environment, which goes before, key by key."""
    table = dict(file) if isinstance(file, dict) else {}
    for name, change in env.items():
        before = table.get(name)
        both = isinstance(before, dict) and isinstance(change, dict)
        table[name] = {**before, **change} if both and before is not None else change
    return table


# --- judgement of rollouts ---------------------------------------------------------------------


_POLICY = (
    "stall_s",
    "doomed_after",
    "agents",
    "validity",
    "max_steps",
    "budget",
    "content_filter",
    "max_retries",
    "breaker_threshold",
    "breaker_probe",
)


def _base_url(url: str) -> str:
    if not re.match(r"https?://[^/\s]+(/[^\s?#]*)?$", url):
        raise ValueError("must be http(s)://host[:port][/path]")
    return url


BaseUrl = Annotated[str, AfterValidator(_base_url)]


def seconds(default: float, description: str, *, ge: float | None = None) -> Any:
    """Declare a setting in seconds, more than 0 unless a least value is given."""
    gt = 0 if ge is None else None
    return Field(default, gt=gt, ge=ge, description=f"{description}, in seconds")


class PolicySettings(BaseModel):
    """Rules for judging rollouts, advising retries and stopping batches."""

    breaker_threshold: int = Field(
        5,
        ge=0,
        description="consecutive equal permanent failures that open a lane's breaker; 0: never",
    )
    breaker_probe: bool = Field(
        True,
        description="admit one rollout to an open lane a minute after it opened, and each time "
        "that it fails after twice as long, up to ten minutes; false: only after a reset",
    )
    max_retries: int = Field(
        2, ge=0, description="maximum retries advised after transient failures; 0: none"
    )
    agents: Literal["trusted", "untrusted"] = Field(
        "trusted", description="`untrusted`: agents may fail calls themselves to lose a score"
    )
    validity: Literal["invalid", "suspect", "none"] = Field(
        "invalid", description="the mildest validity finding that makes a rollout not scoreable"
    )
    max_steps: Literal["score", "exclude"] = Field(
        "score", description="whether rollouts that ran out of steps are scored"
    )
    budget: Literal["score", "exclude"] = Field(
        "score", description="whether rollouts that spent a limit of their own are scored"
    )
    content_filter: Literal["failure", "answer"] = Field(
        "failure",
        description="what a content filter on a request is: a rejected request, which takes the "
        "reward away, or the `answer` of the system under test",
    )
    doomed_after: int = Field(
        2, ge=0, description="equal permanent failures after which a rollout is doomed; 0: never"
    )
    stall_s: float = seconds(
        60.0,
        "time between two content events of a stream after which a call abandoned "
        "by its agent is stalled",
    )
    first_content_s: float = seconds(300.0, "the same before a stream's first content")
    whole_answer_s: float = seconds(600.0, "the same for an answer that is not streamed")

    @property
    def policy(self) -> Policy:
        """The policy by which rollouts are judged and retries advised."""
        return Policy(**{name: getattr(self, name) for name in _POLICY})


# --- all settings ------------------------------------------------------------------------------


# Settings of the last release that are accepted for one more, and what to do instead.
_DEPRECATED: Mapping[str, str] = {
    "http_client": "it has no effect, remove it",
    "retry_on_api_error": "use max_retries = 0 to disable retries",
}


class KernelSettings(PolicySettings):
    """The settings of the service that are no feature's."""

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
    dashboard_url: BaseUrl | None = Field(
        None,
        description="base URL in sign-in links; defaults to `public_url`, else to where the "
        "control plane listens",
    )
    public_url: BaseUrl | None = Field(
        None,
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
    reference_calls: bool = Field(
        default=True,
        description="where an untrusted agent's call fails, or a breaker is about to open, ask the "
        "model up to three plain questions with the operator's key, to learn whose failure it was",
    )
    status_public: bool = Field(
        default=False,
        description="answer `GET /status` without the admin token too, in a short form without "
        "keys, counts and names of your own",
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

    _warnings: tuple[str, ...] = PrivateAttr(())

    @field_validator("admin_token")
    @classmethod
    def _not_blank(cls, token: SecretStr | None) -> SecretStr | None:
        if token is not None and not token.get_secret_value().strip():
            raise ValueError("must not be blank")
        return token

    @field_validator("upstreams")
    @classmethod
    def _known_upstreams(cls, changes: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
        check_addresses(allow_list(changes, options=upstream_options()))
        return changes

    @model_validator(mode="after")
    def _fit_together(self) -> Self:
        _check_ports(self)
        check_not_own(self.allow_list().values(), self.own_addresses())
        return self

    @property
    def addresses(self) -> tuple[tuple[str, int], ...]:
        """The addresses to listen on, as host and port; the agents' first."""
        control = (self.control_host or self.host, self.control_port)
        return ((self.host, self.port), control) if self.control_port else ((self.host, self.port),)

    @property
    def separate_control(self) -> bool:
        """True if the control plane has a process of its own."""
        return self.control_process and bool(self.control_port)

    def own_addresses(self, is_ours: Callable[[str], bool] = lambda _: False) -> OwnAddresses:
        """Return where the service listens; ``is_ours`` tells this machine's addresses."""
        return OwnAddresses(listening=self.addresses, public_url=self.public_url, is_ours=is_ours)

    @property
    def warnings(self) -> tuple[str, ...]:
        """One sentence for each setting that the next release refuses."""
        return self._warnings

    @property
    def replaces_keys(self) -> bool:
        """True if the operator's keys replace those that agents show."""
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

    def key_names(self, environment: Mapping[str, str]) -> dict[str, str]:
        """Return the names of the variables that the real keys are from, by upstream."""
        upstreams = self.allow_list()
        return {
            name: _variable("keys", name) if name in self.keys else upstreams[name].key_env or ""
            for name in self.real_keys(environment)
        }

    @property
    def exposed(self) -> str | None:
        """An address at which other machines can reach the service, if any."""
        return next((host for host, _ in self.addresses if not _is_loopback(host)), None)


if TYPE_CHECKING:

    class Settings(KernelSettings):
        """All settings: flags override the environment, which overrides `truezero.toml`."""

else:  # the kernel's first, as documentation and errors have them
    _OF_FEATURES = reversed(settings_of_features(KernelSettings.model_fields))
    Settings = type("Settings", (*_OF_FEATURES, KernelSettings), {})
    upstream_options(Upstream.__dataclass_fields__)  # before any is read


def _check_ports(settings: KernelSettings) -> None:
    if settings.control_port and settings.port in (0, settings.control_port):
        raise ValueError("control_port: must differ from port, and port must not be 0")
    if settings.control_host is not None and "control_port" not in settings.model_fields_set:
        raise ValueError("control_host: requires control_port")
    if settings.control_process and "control_port" not in settings.model_fields_set:
        raise ValueError("control_process: requires control_port")


def _reachable(settings: KernelSettings) -> dict[str, Upstream]:
    """Return the allow-list.

    Built-in upstreams on loopback are there where they are named, or where only this machine's
    one user can reach the service, and where they are not the service itself.
    """
    keyed: dict[str, dict[str, Any]] = {name: {} for name in settings.keys if name in LOCAL}
    named = keyed | settings.upstreams
    trusted = settings.exposed is None and settings.admin_token is None
    table = allow_list(named, local=trusted, options=upstream_options())
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
    source = _Source(path=config or named_file(environment), file=file, env=env)
    deprecated = [name for name in _DEPRECATED if name in merged]
    _replace_deprecated(merged, source)
    for table in _OF_UPSTREAMS:
        if table in file and table in env:
            merged[table] = merged_tables(file[table], env[table])
    if merged.get("admin_token") is None and "admin_token_file" in merged:
        merged["admin_token"] = from_token_file(merged["admin_token_file"])
    try:
        settings = Settings(**merged)
    except ValidationError as error:
        raise SettingsError(_sentence(error, source)) from None
    _check_exposure(settings)
    settings._warnings = (
        *map(_deprecation, deprecated),
        *_later_refused(settings, source, environment),
    )
    return settings


def _check_exposure(settings: Settings) -> None:
    if settings.exposed and settings.admin_token is None:
        raise SettingsError(
            f"TRUEZERO_ADMIN_TOKEN must be set to listen on {settings.exposed}, which other "
            "machines can reach; use any long random string, or start with --make-token, or "
            "listen on 127.0.0.1"
        )


def _deprecation(name: str) -> str:
    return f"setting {name} ({PREFIX}{name.upper()}) is deprecated: {_DEPRECATED[name]}"


def _replace_deprecated(given: dict[str, Any], source: _Source) -> None:
    """Remove deprecated settings; set what they stand for."""
    given.pop("http_client", None)
    retries = given.pop("retry_on_api_error", True)
    try:
        if not TypeAdapter(bool).validate_python(retries):
            given["max_retries"] = 0
    except ValidationError as error:
        where = source.label("retry_on_api_error")
        said = message(error.errors(include_url=False)[0])
        raise SettingsError(f"{where}: {said}") from None


# --- mistakes, as sentences --------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _Source:
    """The sources of values: the file, if there is one, and the variables."""

    path: Path | None
    file: Mapping[str, Any]
    env: Mapping[str, Any]

    def label(self, *place: object) -> str:
        """Return the name of a setting as it was given: a variable, or the file and its key."""
        table, *inside = map(str, place)
        if inside and inside[0] in self.env.get(table, ()) and inside[1:] in ([], ["url"]):
            return _variable(table, inside[0])
        if not inside and table in self.env:
            return PREFIX + table.upper()
        name = ".".join((table, *inside))
        return f"{self.path}: {name}" if table in self.file else name

    def write(self, table: str, name: str, other: str) -> str:
        """Return how another name would be given in the place of one."""
        if name in self.env.get(table, ()):
            return _variable(table, other)
        return f"{table}.{other}"


_AS = {
    "upstreams": '; write [upstreams.{0}], and below it url = "https://…"',
    "keys": '; write {0} = "…" below [keys]',
}


def _sentence(error: ValidationError, source: _Source) -> str:
    """Return the first error as a sentence that names the variable, or the file and its key."""
    first = error.errors(include_url=False)[0]
    place = first["loc"]
    if first["type"] == "extra_forbidden":  # of the file: a variable was refused before
        return f"{source.path}: {_unknown(str(place[0]), {*Settings.model_fields, 'policy'})}"
    said = message(first, secret=_is_secret(place)).replace("an object", "a table")
    if not place:  # about several settings, which the sentence names
        return said
    if said.startswith(f"{place[0]}."):  # it says which part
        part, _, said = said.partition(": ")
        return f"{source.label(*part.split('.'))}: {said}"
    if place[0] in _AS and first["type"] in ("dict_type", "string_type"):
        said += _AS[place[0]].format(*place[1:] or ("NAME",))
    return f"{source.label(*place)}: {said}"


def _is_secret(place: Sequence[object]) -> bool:
    """Return True if a value may hold a secret: a key, a token, a URL with a password."""
    name = str(place[0]) if place else ""
    field = Settings.model_fields.get(name)
    secret = field is not None and "SecretStr" in str(field.annotation)
    return secret or name == "upstreams" or name.endswith("_url")


_SHORT = 16  # characters of a token that can be guessed: 64 bits in hexadecimal digits
_NEXT = "the next release refuses it"


def _later_refused(
    settings: Settings, source: _Source, environment: Mapping[str, str]
) -> Iterator[str]:
    """Yield a warning of each mistake that starts for this release only."""
    if environment.get(PREFIX + _MISTAKEN):
        said = f"is no setting; did you mean {PREFIX}ADMIN_TOKEN? It has no effect, and {_NEXT}"
        yield f"{PREFIX}{_MISTAKEN} {said}"
    known = settings.allow_list()
    for name in settings.keys.keys() - known.keys():
        near = meant(name, known, partial(source.write, "keys", name))
        said = f"there is no upstream {name!r}{near or '.'} It has no effect, and {_NEXT}"
        yield f"{source.label('keys', name)}: {said}"
    for name in settings.upstreams.keys() - BUILT_IN.keys():
        alike = next((each for each in BUILT_IN if one_slip(name, each)), None)
        if alike and name not in source.file.get("upstreams", ()):
            yield (
                f"{source.label('upstreams', name)} adds an upstream {name!r}; did you mean "
                f"{_variable('upstreams', alike)}? A new one goes into truezero.toml, as "
                f"[upstreams.{name}]: {_NEXT}"
            )
    token = settings.admin_token
    if settings.exposed and token is not None and len(token.get_secret_value()) < _SHORT:
        yield (
            f"{source.label('admin_token')} has under {plural(_SHORT, 'character')}, and other "
            f"machines can reach {settings.exposed}: use a long random string; {_NEXT}"
        )
