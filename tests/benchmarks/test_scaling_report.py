"""docs/scaling.md and its picture: made of the numbers beside them, by the model."""

from __future__ import annotations

from dataclasses import replace

from benchmarks import dialects
from benchmarks.scaling_report import DATA, PAGE, PICTURE, Found, drawing, page, read


def found() -> Found:
    return read(DATA)


def test_the_page_in_docs_is_made_of_the_numbers_beside_it() -> None:
    assert PAGE.read_text() == page(found()), "run python -m benchmarks.scaling_report"
    assert PICTURE.read_text() == drawing(found()), "run python -m benchmarks.scaling_report"


def test_a_busy_machine_is_told_of() -> None:
    assert "Other programs took" in page(replace(found(), others_percent=50))
    assert "Other programs took" not in page(replace(found(), others_percent=1))


def test_every_feature_of_our_sql_has_a_row() -> None:
    rows = [line for line in page(found()).splitlines() if line.startswith("| ")]
    assert all(any(f"| {each.name} |" in row for row in rows) for each in dialects.FEATURES)


def test_every_measured_point_is_shown() -> None:
    text = page(found())
    assert all(f"| {point['workers']} |" in text for point in found().points["relay"])
    sizes = {int(point["exchanges"]) for point in found().points["disk"]}
    assert all(f"| {size:,} |" in text for size in sizes)


def test_twice_the_cpu_of_a_chunk_carries_fewer_rollouts() -> None:
    now = found()
    dear = replace(now, points={**now.points, "chunks": [{"cpu_us": 1000.0}]})
    assert page(dear) != page(now)
    assert dear.enough().hosts > now.enough().hosts
