"""The wheel carries the documentation."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from proxy.features.help import manual, pages
from tests.test_packaging import wheel

__all__ = ["wheel"]


@pytest.mark.slow
def test_the_wheel_holds_the_pages_of_help_and_what_they_show(wheel: Path) -> None:
    docs = wheel / "proxy" / "features" / "help" / "docs"
    held = {each.relative_to(docs).as_posix() for each in docs.rglob("*") if each.is_file()}
    listed = {file for _, entries in manual.CONTENTS for _, file in entries}
    assert {each for each in held if each.endswith(".md")} == listed
    shown = {
        (Path(page).parent / link).as_posix()
        for page in listed
        for link in re.findall(r'src="([^"]+)"', pages.rendered((docs / page).read_text()).html)
    }
    assert shown and shown <= held
    assert sum(each.stat().st_size for each in docs.rglob("*")) < 1024 * 1024
