"""Files, classes and names stay within the bounds of ``tests/house.py``.

``EXEMPT`` lists what may exceed one, and why. An entry within its bound must be removed.
"""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tests.house import FILE_LINES, Measure, figures, measures, read

# Permanent exceptions, and why.
EXEMPT: Mapping[tuple[str, str], str] = {
    ("lines of a file", "classifier/grammar/vocabulary.py"): "one table: words by what they mean",
    ("lines of a file", "classifier/grammar/meanings.py"): "one table: meanings by their words",
    ("lines of a file", "classifier/cause_table/codes.py"): "one table: a row for each code",
    (
        "fields of a class",
        "classifier/results.py::Result",
    ): "the contract's result, field by field",
    ("fields of a class", "classifier/records.py::Exchange"): "a row of the table of exchanges",
    ("fields of a class", "classifier/records.py::RolloutRecord"): "what is known of a rollout",
    ("fields of a class", "classifier/batches.py::Entry"): "a row of a batch, as it is selected",
    (
        "fields of a class",
        "classifier/batch_summary.py::ScoredBatch",
    ): "the contract's batch, figure by figure",
    ("fields of a class", "classifier/verdicts.py::Verdict"): "the contract's verdict",
    ("fields of a class", "proxy/wire/dialect.py::Reading"): "one response, fact by fact",
    ("fields of a class", "proxy/settings.py::Settings"): "one table: a line for each setting",
    ("fields of a class", "truezero/sdk/arguments.py::RolloutFilters"): "the contract's list query",
    ("fields of a class", "truezero/models/batches.py::BatchSummary"): "the contract's batch",
    ("fields of a class", "truezero/models/exchanges.py::Exchange"): "the contract's exchange",
    ("fields of a class", "truezero/models/lists.py::BatchItem"): "a row of the list, flat",
    ("fields of a class", "truezero/models/lists.py::ListParameters"): "the contract's list query",
    ("fields of a class", "truezero/models/rollouts.py::RolloutItem"): "a row of the list, flat",
    ("fields of a class", "truezero/models/verdicts.py::Verdict"): "the contract's verdict",
}


@pytest.fixture(scope="module")
def over() -> dict[tuple[str, str], int]:
    """Return every figure over its bound, exceptions included."""
    return {(each.what, each.of): each.figure for each in measures(read()) if each.over}


def test_nothing_else_is_over_a_bound(over: Mapping[tuple[str, str], int]) -> None:
    assert {key: figure for key, figure in over.items() if key not in EXEMPT} == {}


def test_an_entry_within_its_bound_must_be_removed(over: Mapping[tuple[str, str], int]) -> None:
    assert [key for key in EXEMPT if key not in over] == []


# --- what is measured ----------------------------------------------------------------------

SAMPLE = '''
@final
class Noun(NamedTuple):
    """A noun."""

    one: int
    many: ClassVar[int] = 2


class Slotted:
    __slots__ = ("a", "b")

    def __init__(self):
        self.a = self.c = 1
        self.b, self.d = 2, 3
        self.e: int = 4
        self.a.inside = other.f = 5


def make():
    class Inner:
        pass
'''


def test_fields_are_declared_slotted_or_set_on_self() -> None:
    noun, slotted, inner = figures("proxy/x.py", SAMPLE).classes
    assert noun.fields == {"one"}
    assert slotted.fields == {"a", "b", "c", "d", "e"}
    assert inner.fields == set()


def test_a_class_is_as_long_as_its_decorators_and_its_body() -> None:
    assert [each.lines for each in figures("proxy/x.py", SAMPLE).classes] == [6, 8, 2]


def test_a_long_file_is_over_wherever_it_is() -> None:
    paths = [f"{package}/long.py" for package in ("proxy", "classifier", "truezero")]
    for lines, expected in ((FILE_LINES, []), (FILE_LINES + 1, paths)):
        over = [
            each for each in measures(figures(path, "\n" * lines) for path in paths) if each.over
        ]
        assert over == [Measure("lines of a file", path, lines) for path in expected]


@pytest.mark.parametrize(
    ("places", "things"),
    [
        (("proxy/a.py",), 1),
        (("proxy/a.py", "proxy/b.py"), 2),
        (("truezero/models/x.py", "classifier/b.py"), 1),  # REST mirrors judgement's noun
        (("truezero/models/x.py", "proxy/b.py"), 2),
        (("truezero/models.py", "classifier/b.py", "proxy/c.py"), 2),
    ],
)
def test_a_name_stands_for_one_thing(places: tuple[str, ...], things: int) -> None:
    result = measures(figures(place, "class Noun:\n    pass\n") for place in places)
    assert Measure("classes of one name", "Noun", things) in result
