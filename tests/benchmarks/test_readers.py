"""Who reads slowly is waited for, and what is unread stays with the provider."""

from __future__ import annotations

from pathlib import Path

from benchmarks import readers


def test_slow_readers_cost_the_same_however_much_they_leave_unread(tmp_path: Path) -> None:
    """``python -m benchmarks.readers`` has a thousand; figures: measurements/reliability.md."""
    (found,) = readers.run(tmp_path, 20, megabytes=16, seconds=3, waves=1)
    assert found.rise_mb < 65, "of 320 MB: 35 to 50 alone, 63 once beside a whole suite"
    assert found.others_s, "others are served meanwhile"
    assert found.endings == {"left_by_agent": 20}
