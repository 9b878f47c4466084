"""Who reads slowly is waited for, and what is unread stays with the provider."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import readers


@pytest.mark.slow
def test_slow_readers_cost_the_same_however_much_they_leave_unread(tmp_path: Path) -> None:
    """``python -m benchmarks.readers`` has a thousand; figures: measurements/reliability.md."""
    (found,) = readers.run(tmp_path, 20, megabytes=64, seconds=3, waves=1)
    assert found.rise_mb < 160, "of 1,280 MB: 20 to 50 on an idle machine, 83 on a busy one"
    assert found.others_s, "others are served meanwhile"
    assert found.endings == {"left_by_agent": 20}
