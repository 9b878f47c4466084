"""`truezero verdict`: what it says of a rollout, and which of its calls it shows."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from classifier import codec
from tests.builders import exchange
from tests.fakes.provider import closed_port
from tests.truezero.cli.test_cli import truezero
from tests.truezero.cli.test_printed import verdict
from truezero import models
from truezero.cli.verdict import chosen, print_verdict


def test_digits_of_an_id_have_no_colour_of_their_own(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    one = call(1, failed=True)
    name = "task-12_0.5-2026-11-24T10:00:00-0x1f"
    facts = verdict(rollout_id=name, fingerprint="auth:401", evidence=[one.id])
    print_verdict(facts, [one])
    shown = capsys.readouterr().out
    assert "\x1b[" in shown
    for whole in (name, "auth:401"):
        assert whole in shown


def test_a_verdict_from_a_service_that_is_not_there(tmp_path: Path) -> None:
    url = f"http://127.0.0.1:{closed_port()}"
    said = truezero("verdict", "r1", "--url", url, folder=tmp_path)
    assert said.returncode == 1
    assert url in said.stderr
    assert "Traceback" not in said.stderr


# --- Calls as text: the proof and what lies around it, at each width, and whole in a pipe ---------

FAILED, ANSWERED = codec.encode_exchange(exchange(429)), codec.encode_exchange(exchange())
MODEL = "claude-sonnet-4-5-20250929"


def call(number: int, *, failed: bool = False, **more: Any) -> models.Exchange:
    facts = FAILED if failed else ANSWERED
    own = {"id": f"00c0ffee00000{number:03}", "model": MODEL, "input_total": 123_456, **more}
    return models.Exchange.model_validate({**facts, **own})


def calls(count: int, failed: Sequence[int] = ()) -> list[models.Exchange]:
    return [call(n, failed=n in failed) for n in range(count)]


def marks(*numbers: int) -> Mapping[str, Sequence[str]]:
    return {call(n).id: ["evidence"] for n in numbers}


@pytest.mark.parametrize(
    ("count", "proofs", "shown"),
    [
        (10, [0], [*range(10)]),
        (11, [0], [0, 1, 2, 3]),
        (300, [150], [*range(147, 154)]),
        (300, [150, 152, 299], [*range(147, 156), 296, 297, 298, 299]),
        (300, [], [*range(290, 300)]),
        # Of many proofs the first and the last five.
        (300, [*range(100, 200)], [*range(97, 108), *range(192, 203)]),
    ],
)
def test_calls_around_the_proof_are_shown(count: int, proofs: list[int], shown: list[int]) -> None:
    assert list(chosen(calls(count), marks(*proofs))) == shown


def printed(
    capsys: pytest.CaptureFixture[str], recorded: Sequence[models.Exchange], **how: Any
) -> list[str]:
    proof = [each.id for each in recorded if each.subcategory is not None]
    print_verdict(verdict(evidence=proof), recorded, **how)
    lines = capsys.readouterr().out.splitlines()
    start = next(n for n, line in enumerate(lines) if line.startswith("call "))
    return [line.rstrip() for line in lines[start:]]


@pytest.mark.slow
def test_what_is_left_out_is_counted_and_all_of_it_can_be_had(
    capsys: pytest.CaptureFixture[str],
) -> None:
    recorded = calls(300, failed=[150])
    lines = printed(capsys, recorded)
    assert len(lines) == 1 + 7 + 2 + 1
    assert lines[1].split() == ["…", "147", "calls"]
    assert lines[5].split()[0] == "151"
    assert lines[5].endswith("evidence")
    assert lines[-2].split() == ["…", "146", "calls"]
    assert lines[-1] == "7 of 300 calls: --all lists them"
    everything = printed(capsys, recorded, everything=True)
    assert [line.split()[0] for line in everything[1:]] == [str(n) for n in range(1, 301)]
    many = printed(capsys, calls(300, failed=range(300)))
    assert "284 calls, 284 failed" in " ".join(many)


@pytest.mark.parametrize(
    ("width", "columns"),
    [
        (60, ["call", "status", "ending", "cause"]),
        (80, ["call", "status", "ending", "model", "cause"]),
        (100, ["call", "status", "ending", "model", "tokens", "seconds", "cause"]),
        (None, ["call", "status", "ending", "model", "tokens", "seconds", "cause"]),
    ],
)
def test_columns_fit_and_no_cell_is_cut(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    width: int | None,
    columns: list[str],
) -> None:
    """Without a width it is a pipe, whose lines are whole."""
    monkeypatch.delenv("COLUMNS", raising=False)
    if width is not None:
        monkeypatch.setenv("COLUMNS", str(width))
    lines = printed(capsys, calls(30, failed=[7]))
    assert lines[0].split() == columns
    assert len(lines) == 1 + 7 + 2 + 1, "no row is folded"
    assert max(map(len, lines)) <= (width or 10_000)
    assert not any("…" in line.removeprefix("…") for line in lines)
    (proof,) = (line for line in lines if line.endswith("evidence"))
    assert proof.split()[:2] == ["8", "429"]
    assert (MODEL in proof) == ("model" in columns)


def test_a_long_cause_is_folded_and_not_cut(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    code = "a_code_that_is_longer_than_any_that_a_provider_has_sent_us_so_far"
    lines = printed(capsys, [call(0, failed=True, error_code=code)])
    assert max(map(len, lines)) <= 60
    assert code in re.sub(r"\s|evidence", "", "".join(lines))


def test_a_pipe_and_no_color_have_no_colours(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def written(**environment: str) -> str:
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        print_verdict(verdict(health="api_error", error="HTTP 429"), calls(3, failed=[1]))
        return capsys.readouterr().out

    for name in ("FORCE_COLOR", "NO_COLOR", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    assert "\x1b" not in written()
    assert "\x1b[31m" in written(FORCE_COLOR="1", TERM="xterm", COLUMNS="100"), "red on a terminal"
    coloured = re.compile(r"\x1b\[[\d;]*\b(3[0-7]|9[0-7]|4[0-7])\b[\d;]*m")
    assert not coloured.search(written(NO_COLOR="1"))
