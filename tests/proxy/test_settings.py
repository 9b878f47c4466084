"""Settings: precedence, and one clear sentence for each invalid one."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from proxy.settings import Settings, SettingsError, load


def settings(
    toml: str | None = None, flags: Mapping[str, object] | None = None, **environment: str
) -> Settings:
    return read(toml, flags or {}, environment)


def read(toml: str | None, flags: Mapping[str, object], environment: Mapping[str, str]) -> Settings:
    path = None
    if toml is not None:
        path = Path("truezero.toml")
        path.write_text(toml, encoding="utf-8")
    return load(flags, {f"TRUEZERO_{k}": v for k, v in environment.items()}, path)


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_nothing_needs_to_be_configured() -> None:
    plain = settings()
    assert (plain.host, plain.port, plain.database_url) == ("127.0.0.1", 8383, "truezero.db")
    assert plain.body_limit == 64 * 1024 * 1024
    assert (plain.connect_timeout_s, plain.read_timeout_s) == (10.0, None)


def test_flag_beats_environment_beats_file() -> None:
    toml = "port = 1\nworkers = 2\nlog_level = 'debug'"
    got = settings(toml, {"port": 3, "host": None}, PORT="2", WORKERS="4")
    assert (got.port, got.workers, got.log_level, got.host) == (3, 4, "debug", "127.0.0.1")


def test_a_file_in_the_working_directory_is_found() -> None:
    Path("truezero.toml").write_text("port = 7", encoding="utf-8")
    assert settings().port == 7


def test_a_file_can_be_named_by_the_environment() -> None:
    Path("other.toml").write_text("port = 8", encoding="utf-8")
    assert settings(CONFIG="other.toml").port == 8


def test_upstreams_come_from_environment_and_file() -> None:
    toml = '[upstreams.my_llm]\nurl = "https://a.example"\nauth = "x-api-key"\n'
    got = settings(toml, UPSTREAM_MY_LLM="https://b.example/p", UPSTREAM_OPENAI="http://o:1")
    table = got.allow_list()
    assert (table["my-llm"].url, table["my-llm"].auth.value) == ("https://b.example/p", "x-api-key")
    assert table["openai"].url == "http://o:1"
    assert "anthropic" in table


def test_real_keys_come_from_key_env_or_the_environment() -> None:
    toml = '[upstreams.openai]\nkey_env = "OPENAI_API_KEY"\n'
    got = settings(toml, KEY_MY_LLM="sk-2", UPSTREAM_MY_LLM="https://x.example")
    environment = {"OPENAI_API_KEY": "sk-1"}
    assert got.real_keys(environment) == {"openai": "sk-1", "my-llm": "sk-2"}
    assert got.real_keys({}) == {"my-llm": "sk-2"}


def test_the_operators_keys_replace_an_agents_where_a_token_is_set() -> None:
    assert not settings().replaces_keys
    assert settings(ADMIN_TOKEN="t").replaces_keys
    assert settings(CALLER_KEYS="replace").replaces_keys
    assert not settings("caller_keys = 'pass'", ADMIN_TOKEN="t").replaces_keys
    assert settings().operator_key_paths == "model_calls"
    assert settings(OPERATOR_KEY_PATHS="any").operator_key_paths == "any"


def test_model_servers_on_this_machine_are_there_where_only_its_user_is() -> None:
    local = {"ollama", "vllm", "sglang", "llamacpp", "lmstudio"}
    elsewhere: tuple[tuple[dict[str, str], set[str]], ...] = (
        ({}, local),
        ({"HOST": "localhost"}, local),
        ({"ADMIN_TOKEN": "t"}, set()),
        ({"ADMIN_TOKEN": "t", "HOST": "0.0.0.0"}, set()),
        ({"ADMIN_TOKEN": "t", "UPSTREAM_OLLAMA": "http://10.0.0.7:11434"}, {"ollama"}),
        ({"ADMIN_TOKEN": "t", "KEY_VLLM": "k"}, {"vllm"}),
        ({"PORT": "8000"}, local - {"vllm"}),  # the service itself is there
        ({"CONTROL_PORT": "1234"}, local - {"lmstudio"}),
    )
    for environment, there in elsewhere:
        table = settings(None, None, **environment).allow_list()
        assert {name for name in local if table[name].url is not None} == there, environment
    named = settings("[upstreams.ollama]\ninclude_usage = false", ADMIN_TOKEN="t").allow_list()
    assert named["ollama"].url == "http://127.0.0.1:11434"


def test_no_upstream_is_the_service_itself() -> None:
    for url in (
        "http://127.0.0.1:8383", "http://localhost:8383/v1", "http://[::1]:8383", "http://0.0.0.0:8383",
        "http://[::ffff:127.0.0.1]:8383", "http://proxy.localhost:8383", "http://127.0.0.1:9000",
        "https://tz.example/r", "https://TZ.example:443",
    ):  # fmt: skip
        with pytest.raises(SettingsError, match="is this service itself") as caught:
            settings(UPSTREAM_X=url, CONTROL_PORT="9000", PUBLIC_URL="https://tz.example")
        assert "\n" not in str(caught.value)
    for url in ("http://127.1:8383", "http://2130706433:8383", "http://0x7f.1:8383"):
        with pytest.raises(SettingsError, match="not a plain IPv4 address"):
            settings(UPSTREAM_X=url)
    for url in ("http://127.0.0.1:8384", "http://10.0.0.7:8383", "https://gw.example/openai"):
        settings(UPSTREAM_X=url, PUBLIC_URL="https://gw.example/truezero")


def test_secrets_are_not_printed() -> None:
    got = settings(KEY_OPENAI="sk-secret", ADMIN_TOKEN="t0ken")
    assert "sk-secret" not in repr(got)
    assert "t0ken" not in repr(got)


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        ({"PROT": "1"}, "unknown setting TRUEZERO_PROT"),
        (
            {"UPSTREAM_A": "http://127.0.0.1:1", "UPSTREAMS": "{}"},
            "TRUEZERO_UPSTREAMS: must be a table, not text; write [upstreams.NAME]",
        ),
        ({"PORT": "http"}, "TRUEZERO_PORT"),
        ({"PORT": "70000"}, "TRUEZERO_PORT"),
        ({"WORKERS": "0"}, "TRUEZERO_WORKERS"),
        ({"LOG_LEVEL": "loud"}, "TRUEZERO_LOG_LEVEL"),
        ({"ADMIN_TOKEN": "  "}, "TRUEZERO_ADMIN_TOKEN"),
        ({"UPSTREAM_X": "nowhere"}, "TRUEZERO_UPSTREAM_X: not http(s)://"),
        ({"UPSTREAM_OPENAI_KEY": "sk-x"}, "a provider's key is given as TRUEZERO_KEY_<NAME>"),
        (
            {"UPSTREAM_X": "https://sk-x@x.example"},
            "TRUEZERO_UPSTREAM_X: an upstream's URL has",
        ),
        ({"UPSTREAM_ROLLOUTS": "https://x.example"}, "rollouts"),
        ({"CONFIG": "missing.toml"}, "missing.toml"),
        ({"PUBLIC_URL": "here"}, "TRUEZERO_PUBLIC_URL"),
        ({"CALLER_KEYS": "keep"}, "TRUEZERO_CALLER_KEYS"),
        ({"OPERATOR_KEY_PATHS": "files"}, "TRUEZERO_OPERATOR_KEY_PATHS"),
    ],
)
def test_what_cannot_be_is_one_sentence_that_names_it(
    environment: dict[str, str], said: str
) -> None:
    with pytest.raises(SettingsError) as caught:
        read(None, {}, environment)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
    assert "sk-x" not in str(caught.value), "it may be a key"


@pytest.mark.parametrize("toml", ["prot = 1", "port = 'x'", "port = ", "[upstreams.x]\nulr='y'"])
def test_a_bad_file_is_one_sentence_too(toml: str) -> None:
    with pytest.raises(SettingsError) as caught:
        settings(toml)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "proxy.example"])
def test_listening_beyond_loopback_needs_a_token(host: str) -> None:
    with pytest.raises(SettingsError, match="TRUEZERO_ADMIN_TOKEN must be set"):
        settings(HOST=host)
    assert settings(HOST=host, ADMIN_TOKEN="t").exposed


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1", "127.0.0.9"])
def test_loopback_needs_none(host: str) -> None:
    assert not settings(HOST=host).exposed


def test_a_deprecated_setting_is_accepted_with_a_warning() -> None:
    plain = settings()
    assert plain.warnings == ()
    warning = (
        "setting http_client (TRUEZERO_HTTP_CLIENT) is deprecated: it has no effect, remove it"
    )
    for given in (settings('http_client = "aiohttp"'), settings(HTTP_CLIENT="http1")):
        assert given.warnings == (warning,)
        assert given.model_dump() == plain.model_dump()


def test_a_token_by_the_name_that_nobody_reads_guards_nothing_and_is_told() -> None:
    given = settings(TOKEN="a-long-random-string")
    assert given.admin_token is None
    assert ["did you mean TRUEZERO_ADMIN_TOKEN?" in warning for warning in given.warnings] == [True]
    assert settings(TOKEN="").warnings == ()


@pytest.mark.parametrize("spelling", ["false", "0", "off"])
def test_retry_on_api_error_is_replaced_by_max_retries(spelling: str) -> None:
    by_variable = settings(RETRY_ON_API_ERROR=spelling, MAX_RETRIES="3")
    by_file = settings("[policy]\nretry_on_api_error = false\nmax_retries = 3")
    assert by_variable.policy.max_retries == by_file.policy.max_retries == 0
    assert ["retry_on_api_error" in warning for warning in by_file.warnings] == [True]
    assert settings(RETRY_ON_API_ERROR="true", MAX_RETRIES="3").policy.max_retries == 3


def test_a_deprecated_setting_must_still_be_valid() -> None:
    with pytest.raises(
        SettingsError, match="TRUEZERO_RETRY_ON_API_ERROR: must be true or false, not 'perhaps'"
    ):
        settings(RETRY_ON_API_ERROR="perhaps")
