"""Mistakes of the first hour: each is answered by field, value, nearest name and what is taken."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from click.testing import CliRunner

from proxy.settings import load
from tests.truezero.cli.operating import CLEAN
from tests.truezero.driving import call, service
from truezero import Client, ServiceError
from truezero.cli import app

NAN = float("nan")

# Of pydantic and of the encoder of JSON.
_VALIDATORS = re.compile(
    r"input should|extra inputs|field required|should (be|have|match)|valid (integer|number|string)"
    r"|valid (boolean|dictionary|list)|validation error|value error|json compliant|unable to parse"
    r"|type=|pydantic|greater than|less than|serializable",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class World:
    """A service with the batch `night` of the tasks `sort` and `search`, and an empty folder."""

    url: str
    folder: Path


Said = tuple[str, int | None]  # the sentence; the exit code, or the status of an answer
Given = Callable[[World], Said]


# --- how a mistake is made ---------------------------------------------------------------------


def variables(**given: str) -> Given:
    """Set variables, and start a command that reads the settings."""
    return lambda world: _run(["db", "upgrade"], {f"TRUEZERO_{k}": v for k, v in given.items()})


def file(text: str) -> Given:
    """Write a `truezero.toml`, and start the same."""

    def make(world: World) -> Said:
        Path("truezero.toml").write_text(text, encoding="utf-8")
        return _run(["db", "upgrade"], {})

    return make


def warned(text: str = "", **given: str) -> Given:
    """Read settings with which the service starts, and warns."""

    def make(world: World) -> Said:
        Path("truezero.toml").write_text(text, encoding="utf-8")
        settings = load({}, {f"TRUEZERO_{k}": v for k, v in given.items()})
        return "\n".join(settings.warnings), 0

    return make


def command(*words: str) -> Given:
    """Run a command against the service."""
    return lambda world: _run([*words], {"TRUEZERO_URL": world.url})


def at(url: str) -> Given:
    """Run a command against a service at another address."""

    def make(world: World) -> Said:
        place = world.url.partition("://")[2]
        return _run(["batch", "night"], {"TRUEZERO_URL": url.format(place=place)})

    return make


def sdk(ask: Callable[[Client], object]) -> Given:
    """Call the SDK."""

    def make(world: World) -> Said:
        with Client(world.url) as client, pytest.raises(ServiceError) as caught:
            ask(client)
        return str(caught.value), caught.value.status

    return make


def rest(path: str, body: str, **headers: str) -> Given:
    """Post to REST."""

    def make(world: World) -> Said:
        shown = {"content-type": "application/json", **headers}
        answer = httpx.post(world.url + path, content=body, headers=shown)
        return answer.json()["detail"], answer.status_code

    return make


def _run(words: list[str], environment: dict[str, str]) -> Said:
    result = CliRunner().invoke(app, words, env=environment)
    return result.stderr, result.exit_code


# --- the mistakes ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Mistake:
    """A mistake: how it is made, and what the sentence about it holds.

    ``code`` is the exit code of a command, 0 of one that warns, or the status of REST and SDK.
    """

    given: Given
    names: str  # the field, variable, key or argument, beside its file
    value: str = ""
    nearest: str = ""
    takes: str = ""
    code: int | None


def register(**facts: Any) -> Callable[[Client], object]:
    return lambda client: client.register(batch="new", task="t", **facts)


def report(**outcome: Any) -> Callable[[Client], object]:
    return lambda client: client.report("mistaken", **{"status": "success", **outcome})


def finish(**outcome: Any) -> Callable[[Client], object]:
    def run(client: Client) -> None:
        with client.batch("new").rollout("t") as rollout:
            rollout.finish(**outcome)

    return run


SETTINGS = "docs/reference/settings.md"
UPSTREAM = '[upstreams.openai]\n{} = "https://x.example"'

MISTAKES = {
    # variables
    "setting": Mistake(given=variables(PROT="1"), names="TRUEZERO_PROT", nearest="TRUEZERO_PORT",
                       takes=SETTINGS, code=2),
    "key in other order": Mistake(given=variables(OPENAI_KEY="sk-x"), names="TRUEZERO_OPENAI_KEY",
                                  nearest="TRUEZERO_KEY_OPENAI", takes=SETTINGS, code=2),
    "plural of upstream": Mistake(given=variables(UPSTREAMS_OPENAI="https://x.example"),
                                  names="TRUEZERO_UPSTREAMS_OPENAI",
                                  nearest="TRUEZERO_UPSTREAM_OPENAI", code=2),
    "port as word": Mistake(given=variables(PORT="http"), names="TRUEZERO_PORT", value="'http'",
                            takes="a whole number", code=2),
    "port too large": Mistake(given=variables(PORT="70000"), names="TRUEZERO_PORT", value="70000",
                              takes="at most 65535", code=2),
    "closed choice": Mistake(given=variables(LOG_LEVEL="debg"), names="TRUEZERO_LOG_LEVEL",
                             value="'debg'", nearest="'debug'", takes="'info', 'warning'", code=2),
    "yes or no": Mistake(given=variables(REFERENCE_CALLS="perhaps"),
                         names="TRUEZERO_REFERENCE_CALLS", value="'perhaps'",
                         takes="true or false", code=2),
    "URL without scheme": Mistake(given=variables(UPSTREAM_OPENAI="gw.example:80"),
                                  names="TRUEZERO_UPSTREAM_OPENAI",
                                  takes="http(s)://host[:port][/prefix]", code=2),
    "key as URL": Mistake(given=variables(UPSTREAM_OPENAI="sk-secret"),
                          names="TRUEZERO_UPSTREAM_OPENAI", takes="TRUEZERO_KEY_<NAME>", code=2),
    "table as text": Mistake(given=variables(KEYS="sk-secret"), names="TRUEZERO_KEYS",
                             takes="a table, not text", code=2),
    # variables that are warned about for one release
    "key of nobody": Mistake(given=warned(KEY_OPNEAI="sk-secret"), names="TRUEZERO_KEY_OPNEAI",
                             nearest="TRUEZERO_KEY_OPENAI", takes="next release refuses", code=0),
    "token that nobody reads": Mistake(given=warned(TOKEN="a-long-random-string"),
                                       names="TRUEZERO_TOKEN", nearest="TRUEZERO_ADMIN_TOKEN",
                                       takes="It has no effect", code=0),
    "key of nobody in a file": Mistake(given=warned('[keys]\nantropic = "sk-secret"'),
                                       names="truezero.toml: keys.antropic",
                                       nearest="keys.anthropic", code=0),
    "upstream one slip off": Mistake(given=warned(UPSTREAM_OPNEAI="https://x.example"),
                                     names="TRUEZERO_UPSTREAM_OPNEAI",
                                     nearest="TRUEZERO_UPSTREAM_OPENAI",
                                     takes="[upstreams.opneai]", code=0),
    "short token": Mistake(given=warned(ADMIN_TOKEN="secret", HOST="0.0.0.0"),
                           names="TRUEZERO_ADMIN_TOKEN", takes="a long random string", code=0),
    # files
    "setting in a file": Mistake(given=file("prot = 1"), names="truezero.toml: unknown setting",
                                 value="prot", nearest="port", takes=SETTINGS, code=2),
    "setting of policy": Mistake(given=file("[policy]\nstal_s = 1"), names="truezero.toml",
                                 value="stal_s", nearest="stall_s", code=2),
    "singular of upstreams": Mistake(given=file('[upstream.openai]\nurl = "https://x.example"'),
                                     names="truezero.toml: unknown setting upstream",
                                     nearest="upstreams", code=2),
    "upstream as text": Mistake(given=file('[upstreams]\nopenai = "https://x.example"'),
                                names="truezero.toml: upstreams.openai",
                                takes='a table, not text; write [upstreams.openai]', code=2),
    "key as table": Mistake(given=file('[keys.openai]\nkey = "sk-secret"'),
                            names="truezero.toml: keys.openai",
                            takes='text, not a table; write openai = "…" below [keys]', code=2),
    "option of an upstream": Mistake(given=file(UPSTREAM.format("ulr")),
                                     names="truezero.toml: upstreams.openai.ulr", nearest="url",
                                     takes="url, auth, key_env", code=2),
    "auth of an upstream": Mistake(given=file('[upstreams.openai]\nauth = "x-api-kye"'),
                                   names="truezero.toml: upstreams.openai.auth",
                                   value="'x-api-kye'", nearest="x-api-key",
                                   takes="bearer, x-api-key", code=2),
    "number as text": Mistake(given=file("admin_token = 5"), names="truezero.toml: admin_token",
                              takes="text, not a number", code=2),
    # commands
    "command": Mistake(given=command("chek", "night"), names="'chek'", nearest="check", code=2),
    "command of a group": Mistake(given=command("db", "upgrad"), names="'upgrad'",
                                  nearest="upgrade", code=2),
    "option": Mistake(given=command("list", "--helth", "x"), names="--helth", nearest="--health",
                      code=2),
    "batch": Mistake(given=command("batch", "nigth"), names="batch 'nigth'", nearest="'night'",
                     code=1),
    "batch of a list": Mistake(given=command("list", "--batch", "nigth"), names="batch 'nigth'",
                               nearest="'night'", code=0),
    "task of a list": Mistake(given=command("list", "--batch", "night", "--task", "serch"),
                              names="task 'serch'", nearest="'search'", code=0),
    "filter": Mistake(given=command("list", "--health", "helthy"), names="health",
                      value="'helthy'", nearest="'healthy'", takes="'api_error'", code=1),
    "TLS on a plain port": Mistake(given=at("https://{place}"), names="does not speak TLS",
                                   takes="use http://127.0.0.1", code=1),
    "address without scheme": Mistake(given=at("{place}"), names="TRUEZERO_URL",
                                      takes="http:// or https://", code=1),
    # SDK and REST
    "keyword": Mistake(given=sdk(register(modle="m")), names="modle", nearest="model",
                       takes="id, batch, task", code=422),
    "reward for rewards": Mistake(given=sdk(finish(reward=1.0)), names="reward",
                                  nearest="rewards", takes="status", code=422),
    "NaN": Mistake(given=sdk(finish(rewards=NAN)), names="rewards", value="nan",
                   takes="a finite number", code=422),
    "NaN by name": Mistake(given=sdk(report(rewards={"reward": NAN})), names="rewards.reward",
                           value="nan", takes="a finite number", code=422),
    "NaN over REST": Mistake(given=rest("/rollouts/x/outcome",
                                        '{"status": "success", "rewards": NaN}'),
                             names="rewards", value="nan", takes="a finite number", code=422),
    "reward as text": Mistake(given=sdk(report(rewards="good")), names="rewards", value="'good'",
                              takes="a number, or an object of numbers", code=422),
    "status": Mistake(given=sdk(report(status="sucess")), names="status", value="'sucess'",
                      nearest="'success'", takes="'agent_error'", code=422),
    "upstream of a rollout": Mistake(given=sdk(register(upstream="opneai")), names="upstream",
                                     value="'opneai'", nearest="openai", takes="anthropic",
                                     code=422),
    "field of a limit": Mistake(given=sdk(register(limits={"tokenz": 5})), names="limits.tokenz",
                                nearest="tokens", takes="calls, tokens, cost_usd", code=422),
    "policy": Mistake(given=sdk(register(policy={"agents": "untrustd"})), names="policy.agents",
                      value="'untrustd'", nearest="'untrusted'", takes="'trusted'", code=422),
    "half a number": Mistake(given=sdk(register(repeat=1.5)), names="repeat", value="1.5",
                             takes="a whole number", code=422),
    "object of Python": Mistake(given=sdk(register(metadata={"at": Path()})), names="metadata.at",
                                value="PosixPath", takes="plain JSON", code=422),
    "batch over SDK": Mistake(given=sdk(lambda client: client.check("nigth")),
                              names="batch 'nigth'", nearest="'night'", code=404),
    "filter over SDK": Mistake(given=sdk(lambda client: client.rollouts(tsak="t")), names="tsak",  # type: ignore[call-arg]
                               nearest="task", takes="batch, task, repeat", code=422),
    "upstream of a call": Mistake(given=rest("/r/x/opneai/v1/chat/completions", "{}"),
                                  names="'opneai'", nearest="openai", takes="anthropic",
                                  code=404),
    "field of a newer client": Mistake(given=rest("/rollouts", '{"colour": "red"}',
                                                  **{"x-truezero-client": "99.1.0"}),
                                       names="colour", value="99.1.0",
                                       takes="the same release on both sides", code=422),
}  # fmt: skip


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A service in which two tasks of a batch were measured."""
    with service(tmp_path_factory.mktemp("service")) as (address, _, _), Client(address) as client:
        for task in ("sort", "search"):
            with client.batch("night", model="gpt-5").rollout(task) as rollout:
                call(rollout.env["OPENAI_BASE_URL"])
                rollout.finish(rewards=1.0)
        yield address


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_told_in_words_that_mend_it(
    name: str, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(os, "environ", {**CLEAN, "TRUEZERO_OUTCOME_PATIENCE_S": "0"})
    mistake = MISTAKES[name]
    said, code = mistake.given(World(url, tmp_path))
    assert code == mistake.code, said
    for part in (mistake.names, mistake.value, mistake.takes):
        assert part in said, (part, said)
    if mistake.nearest:
        assert re.search(f"did you mean .*{re.escape(mistake.nearest)}", said, re.IGNORECASE), said
    assert not _VALIDATORS.search(said), said
    assert "secret" not in said, "a value that may be a key is not repeated"
    assert not list(tmp_path.glob("**/*.db")), "a mistake makes no database"
    assert not list(tmp_path.glob(".truezero/**/*.json")), "what nobody takes is not kept"


def test_there_are_forty_at_least() -> None:
    assert len(MISTAKES) >= 40
