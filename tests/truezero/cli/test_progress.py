"""Progress: nothing for what is quick, lines where nobody watches, a live line on a terminal."""

from __future__ import annotations

import io
import threading

import pytest

from truezero.cli import options
from truezero.cli.options import progress

PATIENCE_S = 300


class Written(io.StringIO):
    """A stream that tells of each line."""

    def __init__(self, *, terminal: bool = False) -> None:
        super().__init__()
        self.terminal = terminal
        self.lines = threading.Semaphore(0)

    def isatty(self) -> bool:
        return self.terminal

    def flush(self) -> None:
        self.lines.release()


def test_what_is_quick_says_nothing_where_nobody_watches() -> None:
    out = Written()
    with progress("exporting", first_s=PATIENCE_S, out=out) as show:
        show("5,000 records")
    assert out.getvalue() == ""


def test_what_takes_longer_says_a_line_and_later_another() -> None:
    out, before = Written(), set(threading.enumerate())
    with progress("exporting", first_s=0.01, each_s=0.01, out=out) as show:
        assert out.lines.acquire(timeout=PATIENCE_S)
        show("5,000 records\x1b[2J")
        assert all(out.lines.acquire(timeout=PATIENCE_S) for _ in range(2))
    lines = out.getvalue().splitlines()
    assert lines[0] == "truezero: exporting"
    assert lines[-1].startswith("truezero: 5,000 records")
    assert "\x1b" not in out.getvalue(), "a name cannot move the cursor"
    assert set(threading.enumerate()) <= before, "nobody is left to write more"


def test_a_command_waits_for_two_seconds_with_the_first_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert options.FIRST_S == 2.0
    monkeypatch.setattr(options, "FIRST_S", 0.01)
    out = Written()
    with progress("exporting", out=out):
        assert out.lines.acquire(timeout=PATIENCE_S)
    assert out.getvalue() == "truezero: exporting\n"


def test_an_error_ends_it_too() -> None:
    out = Written()
    try:
        with progress("exporting", first_s=0.01, each_s=0.01, out=out):
            raise KeyboardInterrupt
    except KeyboardInterrupt:
        before = out.getvalue()
    assert out.getvalue() == before


def test_a_terminal_shows_it_live() -> None:
    out = Written(terminal=True)
    with progress("exporting", first_s=0.0, out=out) as show:
        show("5,000 [bold]records")
    assert "5,000 [bold]records" in out.getvalue()
    assert "truezero: " not in out.getvalue()
