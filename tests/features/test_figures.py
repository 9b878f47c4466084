"""No module imports a feature that must not know it, but for listed exceptions, which only shrink.

``python -m tests.features`` prints the figures.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.features.__main__ import report
from tests.features.figures import (
    Features,
    WrongImport,
    exceptions,
    is_excepted,
    named_in,
    names_in,
)
from tests.house import ROOT

# How many imports the contracts of features except. It may be lowered, and is never raised.
MOST = 5


@pytest.fixture(scope="module")
def found() -> Features:
    return Features()


def test_who_imports_a_feature_wrongly_is_listed_as_an_exception(found: Features) -> None:
    excepted = exceptions()
    assert [each for each in found.wrong_imports() if not is_excepted(each, excepted)] == []


def test_an_exception_excepts_something_and_there_are_no_more(found: Features) -> None:
    wrong = [*found.wrong_imports()]
    listed = exceptions()
    assert [one for one in listed if not any(is_excepted(each, [one]) for each in wrong)] == []
    assert len(listed) <= MOST


def test_every_name_has_a_folder_and_a_test(found: Features) -> None:
    described = [found.describe(name) for name in found.on]
    assert [each.name for each in described if not each.lines or not each.tests] == []


def test_every_feature_names_the_guide_that_a_user_reads(found: Features) -> None:
    for name in found.on:
        text = (ROOT / f"proxy/features/{name}/__init__.py").read_text("utf-8")
        guides = re.findall(r"docs/[\w/-]+\.md", text.partition("from ")[0])
        assert guides, name
        assert [guide for guide in guides if not (ROOT / guide).is_file()] == [], name


# --- what is read, on a tree of a few files ---------------------------------------------------

TREE = {
    "proxy/__init__.py": "",
    "proxy/app.py": "from classifier import pace\n\n\ndef f():\n    import proxy.features.card.a\n",
    "proxy/features/__init__.py": '"""All."""\n\nNAMES = ("pace", "card")\n',
    "proxy/features/pace/__init__.py": "import classifier.pace\nimport proxy.features.card.a\n",
    "proxy/features/card/__init__.py": "",
    "proxy/features/card/a.py": "import truezero.models.card\n",
    "proxy/features/card/templates/a.html": "<p>\n</p>\n",
    "proxy/features/left_out/__init__.py": "",
    "classifier/__init__.py": "",
    "classifier/pace.py": "",
    "truezero/__init__.py": "",
    "truezero/models/card.py": "",
    "truezero/cli/card.py": "import truezero.models.card\n",
    "tests/features/card/test_a.py": "def test_a() -> None: ...\n",
}


@pytest.fixture
def small(tmp_path: Path) -> Features:
    for path, text in TREE.items():
        file = tmp_path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, "utf-8")
    return Features(tmp_path)


def test_a_feature_has_the_places_of_its_name_but_those_that_the_kernel_shares(
    small: Features,
) -> None:
    assert small.names == ("pace", "card", "left_out")
    card, pace = small.describe("card"), small.describe("pace")
    assert card.places == ("proxy/features/card", "truezero/models/card.py", "truezero/cli/card.py")
    assert (card.files, card.lines, card.tests, card.shared) == (5, 4, 1, ())
    assert (pace.places, pace.shared) == (("proxy/features/pace",), ("classifier/pace.py",))


def test_both_kinds_of_wrong_imports_are_found_late_ones_too(small: Features) -> None:
    wrong = [*small.wrong_imports()]
    assert wrong == [
        WrongImport("proxy.app", "proxy.features.card.a"),
        WrongImport("proxy.features.pace", "proxy.features.card.a"),
    ]
    assert [small.of_kernel(each) for each in wrong] == [True, False]
    assert not is_excepted(wrong[0], ["proxy.* -> proxy.features.*"])
    assert is_excepted(wrong[0], ["proxy.* -> proxy.features.**"])


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("from proxy.control import (\n    alerts,\n)\n\nalerts.look()\n", [1, 5]),
        ("import proxy.alerts.x\n", [1]),
        ("from proxy.alerts import look\n\nlook()\n", [1]),
        ("from proxy import looks\n\nalerts = 1  # alerts.look\n'alerts.look()'\n", []),
        ("from proxy import alerts\n\nx.alerts.y\nf(alerts=1)\n", [1]),
        ("from proxy import x as alerts\n\nalerts.y\n", [1, 3]),
    ],
)
def test_a_line_names_a_feature_by_an_import_or_an_imported_module(
    text: str, named: list[int]
) -> None:
    assert [line for line, _ in named_in(text, ["pace", "alerts"])] == named


def test_names_are_read_off_their_module() -> None:
    assert names_in('"""Words."""\n\nNAMES = (\n    "a",\n    "b",\n)\n') == ("a", "b")


def test_the_report_has_a_line_for_each_feature_and_both_kinds(found: Features) -> None:
    lines = report(found).splitlines()
    assert [line.split()[0] for line in lines[1 : 1 + len(found.names)]] == [*found.names]
    for title in ("the kernel imports a feature:", "a feature imports another:", "lines of the"):
        assert any(line.startswith(title) for line in lines)
