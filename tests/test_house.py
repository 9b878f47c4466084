"""One class name stands for one thing; the figures that a reviewer asks for are right."""

from __future__ import annotations

import re

import pytest

from tests.house import SourceFile, edges, files_of, lone, namesakes, read, roads

MODULES = {
    "proxy/__init__.py": "",
    "proxy/a.py": "from proxy import b\nfrom proxy.c import X\n\n\nclass A: ...\n",
    "proxy/b.py": "import json\nfrom proxy.c import X\n",
    "proxy/c.py": "def f():\n    from proxy.d import D\n",
    "proxy/d.py": "from __future__ import annotations\n\n\nclass D: ...\n",
}


@pytest.fixture(scope="module")
def source() -> list[SourceFile]:
    return read()


def test_a_class_name_stands_for_one_thing(source: list[SourceFile]) -> None:
    assert namesakes(source) == {}


@pytest.mark.parametrize(
    ("places", "things"),
    [
        (("proxy/a.py",), {}),
        (("proxy/a.py", "proxy/b.py"), {"Noun": 2}),
        (("truezero/models/x.py", "classifier/b.py"), {}),  # REST mirrors judgement's noun
        (("truezero/models/x.py", "proxy/b.py"), {"Noun": 2}),
        (("truezero/models.py", "classifier/b.py", "proxy/c.py"), {"Noun": 2}),
    ],
)
def test_a_rest_model_may_mirror_a_noun_of_the_classifier(
    places: tuple[str, ...], things: dict[str, int]
) -> None:
    assert namesakes(files_of(dict.fromkeys(places, "class Noun: ...\n"))) == things


def test_imports_are_counted_once_a_pair_late_ones_too() -> None:
    files = files_of(MODULES)
    assert {file.name: sorted(file.imports) for file in files if file.imports} == {
        "proxy.a": ["proxy.b", "proxy.c"],
        "proxy.b": ["proxy.c"],
        "proxy.c": ["proxy.d"],
    }
    assert edges(files) == 4


def test_a_lone_module_has_one_importer() -> None:
    assert lone(files_of(MODULES)) == {"proxy.b": "proxy.a", "proxy.d": "proxy.c"}


@pytest.mark.slow
def test_roads_name_the_files_that_decide() -> None:
    found = roads()
    for road, deciding in {
        "a plain exchange": "proxy/recording/recorder.py",
        "a registration": "proxy/store/rollouts.py",
        "three verdicts": "classifier/rules.py",
    }.items():
        assert deciding in found[road]
    assert "classifier/rules.py" not in found["a plain exchange"]


def test_a_docstring_begins_with_what_is_done_or_what_it_is(source: list[SourceFile]) -> None:
    """Not with a question: "Return True if …", "A cache of …", never "Whether …" or "What …"."""
    asking = re.compile(r"(?:What|Whether|Where|How|Who|Which|When|Why|Whose)\b")
    found = [
        f"{file.path}: {text}" for file in source for text in file.docstrings if asking.match(text)
    ]
    assert found == []
    assert sum(len(file.docstrings) for file in source) > 1000
