"""The documentation as files: all are in the contents, and every link leads somewhere."""

from __future__ import annotations

import re

import pytest

from proxy.features.help import manual, pages
from tests.test_docs_site import DOCS, LEFT_OUT, PAGES, ROOT, TEXTS, links


def anchors(text: str) -> set[str]:
    """Return the ids of a page's headings."""
    return set(re.findall(r'<h\d id="([^"]+)"', pages.rendered(text).html))


def test_the_contents_of_help_show_every_page_once() -> None:
    listed = [file for _, entries in manual.CONTENTS for _, file in entries]
    here = [page.relative_to(DOCS).as_posix() for page in PAGES]
    assert sorted(listed) == [page for page in here if not page.startswith(LEFT_OUT)]


@pytest.mark.slow
def test_every_link_and_anchor_leads_somewhere() -> None:
    ids = {page: anchors(text) for page, text in TEXTS.items()}
    followed, dead = 0, []
    for page, text in TEXTS.items():
        for link in links(text):
            if link.startswith(("https://", "http://")):
                continue
            file, _, anchor = link.partition("#")
            target = (page.parent / file).resolve() if file else page
            exists = target.exists() and (not anchor or anchor in ids.get(target, ()))
            followed += 1
            dead += [] if exists else [f"{page.relative_to(ROOT)}: {link}"]
    assert dead == []
    assert followed > 100
