"""docs/measurements/benchmarks.md and its picture: they say what was measured, and that alone."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree as Xml

import pytest

from benchmarks.picture import Panel, picture
from benchmarks.report import PAGE, PICTURE, Results, drawing, page, published, read
from benchmarks.rows import ROWS, Rounds

MACHINE = {"python": "CPython 3.11.2", "cores": 2, "peers": {"nginx": "1.22.1"}}
SVG = "{http://www.w3.org/2000/svg}"
ROUNDS: Rounds = {
    "exchange": [
        {
            "truezero": {"cpu_us": 60.0, "per_s": 15000.0},
            "compiled": {"cpu_us": 110.0, "per_s": 9000.0},
            "nginx": {"cpu_us": 25.0, "per_s": 45000.0},
            "litellm": {"cpu_us": 7200.0, "per_s": 134.0},
        }
    ],
    "first_byte": [{"truezero": {"p50_ms": 0.4, "p99_ms": 4.0}, "direct": {"p50_ms": 0.2}}],
}


def results(rounds: Rounds = ROUNDS, **facts: object) -> Results:
    return Results(machine=MACHINE, rounds=rounds, **facts)  # type: ignore[arg-type]


def line(label: str, goal: str = "") -> str:
    """The page's first line with these words in it."""
    return next(each for each in page(results()).splitlines() if label in each and goal in each)


def test_the_page_in_docs_is_made_of_the_numbers_beside_it() -> None:
    latest, *others = published()
    assert PAGE.read_text() == page(latest, others), "run python -m benchmarks.report"
    assert PICTURE.read_text() == drawing(latest), "run python -m benchmarks.report"


def test_a_goal_that_was_reached_says_so() -> None:
    assert "| 2.4 / " in line("1.5 kB", "≤ 2.5 × nginx")
    assert "| 120 / " in line("1.5 kB", "LiteLLM")


def test_what_is_compiled_has_goals_of_its_own_to_reach() -> None:
    assert line("1.5 kB", "≤ 2.5 × nginx").endswith("| 2.4 / **4.4** |")
    assert line("first byte p50", "≤ 0.25").endswith("| 0.2 |")  # nobody measured it


def test_a_goal_that_was_missed_says_so() -> None:
    missed = {"exchange": [{"truezero": {"cpu_us": 51.0}, "nginx": {"cpu_us": 20.0}}]}
    assert "| ≤ 2.5 × nginx | **2.55** |" in page(results(missed))  # type: ignore[arg-type]


def test_every_goal_that_nobody_measured_is_told_as_such() -> None:
    goals = sum(len(row.goals) for row in ROWS)
    _, _, told = page(results({})).partition("Not measured anywhere: ")
    assert len(told.splitlines()[0].split("; ")) == goals


def test_a_peer_that_is_not_there_leaves_its_goal_open() -> None:
    alone: Rounds = {"exchange": [{"truezero": {"cpu_us": 60.0}}]}
    said = page(results(alone))
    assert (
        "kB exchange ≥ 100 times less than LiteLLM;" in said.partition("Not measured anywhere")[2]
    )


def test_a_delay_is_told_as_so_much_more() -> None:
    assert "| ≤ 0.25 ms more than direct | 0.2 |" in line("first byte p50", "≤ 0.25")


def test_an_unknown_number_is_no_zero() -> None:
    assert "ms to first byte p99 ≤ 0.6 ms more than direct;" in page(results())


def test_the_page_names_versions_and_who_was_not_there() -> None:
    said = page(results())
    assert "| nginx | 1.22.1 |" in said
    assert "| unknown | **machine 1**: python CPython 3.11.2, cores 2 | `make peers" in said
    assert "| LiteLLM |  | 7,200 | 288 | – |" in said
    assert "| Portkey | not run: nobody asked for it in this run |" in said


def test_who_could_not_be_run_is_a_row_that_says_why() -> None:
    said = page(results(absent={"ferrogw": "does not start: no | here"}))
    assert "| ferrogw | not run: does not start: no / here |" in said


def test_the_board_has_the_least_cpu_first_and_what_is_added_at_the_p99() -> None:
    added: Rounds = {
        "added": [{"envoy": {"p50_us": 90.0, "p99_us": 200.0}, "direct": {"p99_us": 60.0}}]
    }
    quick = ROUNDS["exchange"][0] | {"envoy": {"cpu_us": 30.0}}
    said = page(results(ROUNDS | added | {"exchange": [quick]})).splitlines()
    rows = [
        line for line in said if line.startswith(("| nginx | 1", "| envoy |", "| truezero |  |"))
    ]
    assert [row.split(" ")[1] for row in rows] == ["nginx", "envoy", "truezero"]
    assert rows[1] == "| envoy |  | 30 | 1.2 | – | – | – | 140 | – |"


def test_what_the_kernel_takes_of_a_goal_stands_where_it_is_not_reached() -> None:
    measured: Rounds = {
        "exchange": [{"truezero": {"cpu_us": 60.0, "kernel_us": 31.0}, "nginx": {"cpu_us": 20.0}}],
        "large": [{"truezero": {"cpu_us": 30.0, "kernel_us": 15.0}, "nginx": {"cpu_us": 18.0}}],
    }
    said = page(results(measured))
    assert "| 1.5 kB exchange, truezero | 50 | 60 | 31 | 29 | 19 |" in said
    assert "| 100 kB request, truezero |" not in said  # reached
    assert "SQLite (machine 1)." in said
    assert "Why goals" not in page(results())  # not measured


def test_results_of_several_days_say_the_first_and_the_last(tmp_path: Path) -> None:
    days = ("2026-11-23", "2026-11-22", "2026-11-23")
    files = [tmp_path / f"{n}.json" for n, _ in enumerate(days)]
    for file, day in zip(files, days, strict=True):
        file.write_text(json.dumps({"machine": MACHINE, "measured": day, "rounds": {}}))
    assert read(files).measured == "2026-11-22 to 2026-11-23"
    assert read(files[:1]).measured == "2026-11-23"


def test_each_machine_has_a_column_of_goals() -> None:
    other = Results(machine={"processor": "Z80", "python": "3.12"}, measured="2026-11-22", rounds={
        "exchange": [{"truezero": {"cpu_us": 70.0}, "nginx": {"cpu_us": 10.0}}],
    })  # fmt: skip
    said = page(results(), [other])
    assert "| figure | goal | machine 1 | machine 2 |" in said
    assert "| 2026-11-22 | **machine 2**: processor Z80, python 3.12 |" in said
    assert "| µs CPU per 1.5 kB exchange | ≤ 2.5 × nginx | 2.4 / **4.4** | **7** |" in said
    assert said.count("## The board") == 1, "the other's is in the JSON"
    assert results().where != other.where


def test_what_failed_stands_on_the_page() -> None:
    assert "- 9,000 streams: cut" in page(results(problems=["9,000 streams: cut"]))


@pytest.mark.parametrize(("percent", "warned"), [(80.0, True), (3.0, False)])
def test_a_busy_machine_is_confessed(percent: float, warned: bool) -> None:
    assert ("Other programs took" in page(results(others_percent=percent))) is warned


def written(folder: Path, name: str, machine: dict[str, object], rounds: Rounds) -> Path:
    file = folder / name
    file.write_text(json.dumps({"machine": machine, "rounds": rounds}))
    return file


def test_of_two_files_the_last_one_tells_a_figure(tmp_path: Path) -> None:
    again: Rounds = {"exchange": [{"truezero": {"cpu_us": 1.0}}]}
    files = [written(tmp_path, "a", MACHINE, ROUNDS), written(tmp_path, "b", MACHINE, again)]
    assert read(files).rounds == ROUNDS | again


def test_numbers_of_two_machines_are_not_mixed(tmp_path: Path) -> None:
    other = MACHINE | {"cores": 64}
    files = [written(tmp_path, "a", MACHINE, ROUNDS), written(tmp_path, "b", other, ROUNDS)]
    with pytest.raises(SystemExit, match="not of one machine"):
        read(files)


def test_a_bar_is_as_long_as_its_decades() -> None:
    panel = Panel(title="µs", values={"a": 1.0, "b": 10.0, "c": 100.0})
    drawn = Xml.fromstring(picture([panel], ours="b", says="bars"))
    bars = [float(bar.attrib["width"]) for bar in drawn.iter(f"{SVG}rect")]
    assert bars[0] == 0
    assert bars[2] == pytest.approx(2 * bars[1], abs=0.2)
    assert [bar.attrib["class"] for bar in drawn.iter(f"{SVG}rect")] == ["bar", "ours", "bar"]


def test_the_picture_has_a_bar_for_who_was_measured_only() -> None:
    drawn = Xml.fromstring(drawing(results()))
    words = [text.text for text in drawn.iter(f"{SVG}text")]
    assert {"nginx", "truezero", "LiteLLM"} <= set(words)
    assert "Portkey" not in words
    assert words.count("truezero") == 1  # no panel of chunks, which nobody measured


def test_the_picture_is_read_in_the_dark_and_by_those_who_do_not_see_it() -> None:
    drawn = Xml.fromstring(drawing(results()))
    style, title = drawn.find(f"{SVG}style"), drawn.find(f"{SVG}title")
    assert style is not None
    assert "prefers-color-scheme: dark" in (style.text or "")
    assert title is not None
    assert "CPU time" in (title.text or "")
