"""0.2.0's own client, SDK and commands, reads a service of today.

`tests/vendor/truezero-0.2.0-client.zip` holds the package `truezero` as it was released (commit
820329ec), without `integrations` and `runner`, and its metadata. It is imported as it is.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, get_args

import httpx
import pytest
from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo

from tests.truezero.driving import call, service
from truezero import Client, models
from truezero.cli.verdict import print_verdict
from truezero.models.base import StrictRequest
from truezero.models.verdicts import LATER_CHECKS, CheckName
from truezero.sdk.addresses import CLIENT

RELEASED = Path(__file__).parent.parent / "vendor" / "truezero-0.2.0-client.zip"


def released(*command: str, url: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run Python with 0.2.0's client in place of today's."""
    clean = {name: value for name, value in os.environ.items() if "TRUEZERO" not in name}
    environment = {**clean, "PYTHONPATH": str(RELEASED), "TRUEZERO_URL": url}
    return subprocess.run(
        [sys.executable, *command], cwd=folder, env=environment, capture_output=True, text=True,
        timeout=120, check=False,
    )  # fmt: skip


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A service with rollouts of which today's rules find more than 0.2.0's client knows."""
    with service(tmp_path_factory.mktemp("service")) as (address, _, _), Client(address) as client:
        for agents in ("trusted", "untrusted"):
            batch = client.batch(agents, model="gpt-5", policy={"agents": agents})
            batch.run({"won": "sk-good", "dead": "sk-dead", "silent": ""}, passes)
        yield address


def passes(task: str, rollout: Any) -> float:
    key = {"won": "sk-good", "dead": "sk-dead"}.get(task)
    if key is not None:
        call(rollout.env["OPENAI_BASE_URL"], key)
    return 1.0


READS = """
import json
from importlib import metadata
from truezero import Client

found = {"version": metadata.version("truezero"), "rollouts": {}}
with Client() as client:
    for name in ("trusted", "untrusted"):
        client.summary(name), client.check(name), client.card(name)
        for item in client.rollouts(batch=name):
            verdict, result = client.verdict(item.id), client.result(item.id)
            seed = client.verdict(item.id, policy="seed")
            client.exchanges(item.id)
            found["rollouts"][f"{name} {item.task}"] = {
                "item": item.validity, "rule": verdict.rule, "reward": result.rewards,
                "validity": [each.check for each in verdict.validity],
                "of_result": [each.check for each in result.validity],
                "coverage": [*verdict.validity_coverage], "seed": seed.rule,
                "excluded_by": verdict.excluded_by,
            }
    client.register(id="own", batch="of 0.2.0", task="t", model="gpt-5")
    told = client.report("own", status="success", rewards=1.0, prompts_executed=1)
    found["reported"] = [each.check for each in told.validity]
    with client.batch("of 0.2.0").rollout("t2") as rollout:
        rollout.finish(rewards=1.0)
    found["finished"] = rollout.verdict.rule
print(json.dumps(found))
"""


@pytest.mark.slow
def test_0_2_0s_client_reads_what_todays_rules_find(url: str, tmp_path: Path) -> None:
    ended = released("-c", READS, url=url, folder=tmp_path)
    assert ended.returncode == 0, ended.stderr
    found = json.loads(ended.stdout)
    assert found["version"] == "0.2.0"
    assert len(found["rollouts"]) == 6
    for name, each in found["rollouts"].items():
        told = {*each["validity"], *each["of_result"], *each["coverage"]}
        assert told.isdisjoint(LATER_CHECKS), name
    dead = found["rollouts"]["trusted dead"]
    assert (dead["rule"], dead["reward"], dead["seed"]) == ("all_failed", None, "all_failed")
    assert "unearned" in dead["item"], "names in a list are any text"
    assert (found["reported"], found["finished"]) == ([], "zero_signal")


@pytest.mark.slow
@pytest.mark.parametrize("command", ["verdict", "check", "batch", "list", "batches"])
def test_0_2_0s_commands_print_what_todays_rules_find(
    command: str, url: str, tmp_path: Path
) -> None:
    with Client(url) as client:
        (dead, *_) = client.rollouts(batch="trusted", task="dead")
    of = {"verdict": [dead.id], "check": ["trusted"], "batch": ["untrusted"]}
    for form in ((), ("--json",)):
        ended = released(
            "-m", "truezero", command, *of.get(command, ()), *form, url=url, folder=tmp_path
        )
        assert ended.returncode in (0, 1), ended.stderr
        assert "Traceback" not in ended.stderr
        assert "truezero:" not in ended.stderr, "an error of one sentence"
        assert ended.stdout


@pytest.mark.slow
def test_who_names_its_version_is_told_the_new_checks(url: str) -> None:
    with Client(url) as client:
        (dead, *_) = client.rollouts(batch="trusted", task="dead")
        verdict, result = client.verdict(dead.id), client.result(dead.id)
    for told in (verdict, result):
        assert "unearned" in {each.check for each in told.validity}
        assert "unearned" in told.validity_coverage
    path = f"{url}/rollouts/{dead.id}/verdict"
    assert "unearned" not in httpx.get(path).text
    assert "unearned" in httpx.get(path, headers={CLIENT: "0.2.1"}).text


@pytest.mark.slow
def test_the_checks_since_0_2_0_are_named_in_one_place(tmp_path: Path) -> None:
    names = "from truezero.models.verdicts import CheckName; print(*CheckName.__args__)"
    ended = released("-c", names, url="http://127.0.0.1:1", folder=tmp_path)
    assert {*get_args(CheckName)} - {*ended.stdout.split()} == LATER_CHECKS


# --- today's client, and a service of tomorrow ---

TOMORROW: dict[str, Any] = {
    "check": "of_tomorrow", "level": "of_tomorrow", "calls": 1, "of": 1, "evidence": [],
    "sentence": "",
}  # fmt: skip


def test_todays_client_reads_words_that_it_does_not_know(url: str) -> None:
    with Client(url) as client:
        (dead, *_) = client.rollouts(batch="trusted", task="dead")
        known = client.verdict(dead.id).model_dump()
    words = ("health", "error_category", "subcategory", "attributed_to", "rule", "scoreable")
    later = known | dict.fromkeys(words, "of_tomorrow") | {"validity": [TOMORROW]}
    read = models.Verdict.model_validate(later)
    assert [getattr(read, name) for name in words] == ["of_tomorrow"] * len(words)
    assert (read.validity[0].check, read.validity[0].level) == ("of_tomorrow", "of_tomorrow")


def answered() -> Iterator[tuple[str, FieldInfo]]:
    """Yield the fields of answers that hold a word of a closed set, by model and name."""
    # Parameters, names of formats, and states by which a service is known to be one.
    given = (models.ListParameters, models.MeasurementCard, models.Alive, models.Ready)
    for name in models.__all__:
        model = getattr(models, name)
        if not isinstance(model, type) or not issubclass(model, BaseModel):
            continue
        if issubclass(model, (StrictRequest, *given)):
            continue
        for field, info in model.model_fields.items():
            if "Literal" in str(info):
                yield f"{name}.{field}", info


def test_every_word_in_an_answer_may_be_one_that_todays_client_does_not_know() -> None:
    fields = dict(answered())
    assert len(fields) > 20
    for name, info in fields.items():
        kind: Any = Annotated[info.annotation, *info.metadata, None]
        reader: TypeAdapter[Any] = TypeAdapter(kind)
        several = "list[" in str(info.annotation)
        word = ["of_tomorrow"] if several else "of_tomorrow"
        assert reader.validate_python(word) == word, name
        with pytest.raises(ValidationError):
            reader.validate_python([7] if several else 7)


def test_the_command_prints_a_level_and_a_health_that_it_does_not_know(
    url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with Client(url) as client:
        (dead, *_) = client.rollouts(batch="trusted", task="dead")
        known = client.verdict(dead.id).model_dump()
    later = known | {"health": "of_tomorrow", "validity": [TOMORROW]}
    print_verdict(models.Verdict.model_validate(later), [])
    assert "of_tomorrow of_tomorrow" in capsys.readouterr().out
