"""An export is judged without a server, and the door needs nothing but Python."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from classifier import Health, RolloutRecord, judge
from classifier.__main__ import LineError, judge_export, main, rollouts_of
from classifier.codec import encode_exchange, encode_outcome, encode_rollout, encode_verdict
from tests.builders import rollout
from tests.classifier.truth import TABLE
from tests.tables import each

ROOT = Path(__file__).parents[2]


def exported(*rollouts: RolloutRecord) -> list[str]:
    lines: list[dict[str, object]] = []
    for seen in rollouts:
        lines.append({"record": "rollout"} | encode_rollout(seen))
        lines += [encode_exchange(x) for x in seen.exchanges]
        if seen.outcome is not None:
            told = {"record": "outcome", "rollout_id": seen.id}
            lines.append(told | encode_outcome(seen.outcome))
    return [json.dumps(line) for line in lines]


def named(seen: RolloutRecord, name: str) -> RolloutRecord:
    calls = tuple(replace(x, rollout_id=name) for x in seen.exchanges)
    return replace(seen, id=name, exchanges=calls)


def test_an_exported_table_is_judged_as_it_was_live() -> None:
    table = [named(row.rollout, f"r{n}") for n, row in enumerate(TABLE[::3])]
    assert judge_export(exported(*table)) == [judge(seen) for seen in table]


def test_lines_of_a_rollout_may_come_in_any_order() -> None:
    lines = exported(rollout("429 200+tool 401"))
    (seen,) = rollouts_of(lines)
    (turned,) = rollouts_of(lines[::-1])
    assert judge(seen) == judge(turned)
    assert judge(seen).rule == "interrupted"


def test_exchanges_alone_give_a_provisional_verdict() -> None:
    lines = [json.dumps(encode_exchange(x)) for x in rollout("401*2").exchanges]
    (verdict,) = judge_export([*lines, "", "\n"])
    assert (verdict.health, verdict.provisional) == (Health.API_ERROR, True)


@each(
    "line, said",
    [
        ("[]", "line 1: is not an object"),
        ("{", "line 1: "),
        ('{"record": "song"}', "line 1: record: 'song'"),
        ('{"record": "outcome", "rollout_id": "r1", "status": "fine"}', "line 1: status: "),
        ('{"record": "outcome", "status": "success"}', "line 1: rollout_id: is missing"),
        ('{"record": "rollout"}', "line 1: id: is missing"),
        ('{"id": "x"}', "line 1: started_at: is missing"),
    ],
)
def test_a_line_that_cannot_be_read_is_named(line: str, said: str) -> None:
    with pytest.raises(LineError) as caught:
        rollouts_of([line])
    assert str(caught.value).startswith(said)


def test_the_command_prints_one_verdict_a_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    export = tmp_path / "export.jsonl"
    rollouts = [named(rollout("200+tool 402*2"), "r1"), named(rollout("200"), "r2")]
    export.write_text("\n".join(exported(*rollouts)), encoding="utf-8")
    assert main([str(export)]) == 0
    told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert told == [encode_verdict(judge(seen)) for seen in rollouts]
    assert main([str(export), "--policy", "seed"]) == 0
    by_seed = [json.loads(line)["health"] for line in capsys.readouterr().out.splitlines()]
    assert by_seed == ["healthy", "healthy"]


def test_the_command_says_what_it_cannot_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = tmp_path / "broken.jsonl"
    broken.write_text("{}\n", encoding="utf-8")
    assert main([str(broken)]) == 2
    assert "line 1" in capsys.readouterr().err
    assert main([str(tmp_path / "absent.jsonl")]) == 2


def test_the_door_needs_nothing_but_the_standard_library() -> None:
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); import classifier, classifier.codec, "
        "classifier.batches, classifier.breakers, classifier.__main__; "
        "print(*{name.partition('.')[0] for name in sys.modules})"
    )
    asked = [sys.executable, "-I", "-S", "-c", code, str(ROOT)]
    told = subprocess.run(asked, capture_output=True, text=True, check=True)
    foreign = set(told.stdout.split()) - set(sys.stdlib_module_names) - {"__main__", "classifier"}
    assert foreign == set()


def test_the_door_opens_on_everything_it_names() -> None:
    import classifier

    assert sorted(classifier.__all__) == sorted(set(classifier.__all__))
    assert all(hasattr(classifier, name) for name in classifier.__all__)


def test_rows_of_the_operator_are_applied_to_an_export(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    toml = tmp_path / "truezero.toml"
    toml.write_text("[[causes]]\nname = 'down'\nstatus = 401\ncause = 'provider_error'\n")
    calls = [encode_exchange(replace(x, rollout_id="r")) for x in rollout("401*2").exchanges]
    file = tmp_path / "export.jsonl"
    file.write_text("\n".join(json.dumps({"record": "exchange", **call}) for call in calls))
    assert main([str(file), "--causes", str(toml)]) == 0
    rule = "(all_failed, not scoreable)"
    assert capsys.readouterr().out.splitlines() == [
        "2 failed calls, 2 with another cause",
        "  built.auth → operator:down: 2 calls",
        "1 rollout, 1 with another verdict",
        f"  r: api_error auth {rule} → api_error provider_error {rule}",
    ]
    assert main([str(file), "--causes", str(tmp_path / "none.toml")]) == 2
    assert "cannot read" in capsys.readouterr().err


ANSWERS = [
    {"id": "a", "status": 401, "body": {"error": {"message": "invalid x-api-key"}}},
    {"exception": "ValueError: bad"},
    {"id": 3, "status": 429, "headers": {"Retry-After": "7"}, "body": "slow down"},
]


def test_the_command_reads_single_answers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "answers.jsonl"
    file.write_text("\n\n".join(map(json.dumps, ANSWERS)), encoding="utf-8")
    assert main(["--answers", str(file)]) == 0
    first, second, third = map(json.loads, capsys.readouterr().out.splitlines())
    assert (first["id"], first["cause"], first["whose"]) == ("a", "auth", "operator")
    assert second == {"cause": None}
    assert (third["id"], third["cause"], third["retry_after_s"]) == (3, "rate_limit", 7.0)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ('{"status": "429"}', "status: '429' is no int"),
        ('{"status": true}', "status: True is no int"),
        ('{"status": 429, "headers": []}', "headers: [] is no dict"),
        ("{}", "cause_of() takes a status or an exception"),
        ("[]", "is not an object"),
    ],
)
def test_an_answer_that_is_none_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], line: str, says: str
) -> None:
    file = tmp_path / "answers.jsonl"
    file.write_text('{"status": 200}\n' + line, encoding="utf-8")
    assert main(["--answers", str(file)]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert f"line 2: {says}" in told.err
