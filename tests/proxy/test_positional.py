"""Records that are built by position: each value stands where its field is declared."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path

import pytest

from classifier.records import Exchange, Usage, check_order
from proxy.capture import observer
from proxy.capture.request import Call
from proxy.relay import relay

ROOT = Path(__file__).parent.parent.parent
RENAMED = {("answered_model", "model")}  # of a field, and of what it is read from


@dataclass(frozen=True)
class Built:
    """One place that builds by position: the expressions, and the fields they are for."""

    file: str
    function: str
    names: Sequence[str]
    parts: tuple[str, ...]  # tuples that are added; or the class that is called
    record: type


PLACES = [
    Built(
        "proxy/capture/observer.py", "finished_exchange",
        observer.REQUEST_ORDER + observer.ANSWER_ORDER + observer.CHECKED_ORDER,
        ("request_fields", "answered", "checked"), Exchange,
    ),
    Built("proxy/capture/observer.py", "_usage", observer.USAGE_ORDER, ("Usage",), Usage),
    Built("proxy/relay/relay.py", "take", relay.CALL_ORDER, ("Call",), Call),
]  # fmt: skip


def values(place: Built, source: str) -> list[ast.expr]:
    """The expressions that a place hands over, in their order."""
    function = next(
        node
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef) and node.name == place.function
    )
    found: dict[str, list[ast.expr]] = {}
    for node in ast.walk(function):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Tuple(elts=elements)):
                found[name] = elements
            case ast.Call(func=ast.Name(id=name), args=arguments) if name in place.parts:
                found[name] = arguments
    return [each for part in place.parts for each in found[part]]


def read_from(value: ast.expr) -> Iterator[str]:
    """The last names of what an expression yields."""
    match value:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            yield name
        case ast.Call(func=function):
            yield from read_from(function)
        case ast.BoolOp(values=operands):
            for operand in operands:
                yield from read_from(operand)
        case ast.IfExp(body=body, orelse=other):
            yield from read_from(body)
            yield from read_from(other)


def misplaced(place: Built, source: str) -> list[tuple[str, str]]:
    """Fields whose value is that of another one, and names left over."""
    found = values(place, source)
    if len(found) != len(place.names):
        return [(f"{len(found)} values", f"{len(place.names)} fields")]
    own = {each.name for each in fields(place.record)}
    return [
        (field, name)
        for field, value in zip(place.names, found, strict=True)
        for name in read_from(value)
        if name in own and name != field and (field, name) not in RENAMED
    ]


@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.record.__name__)
def test_what_is_read_by_a_fields_name_stands_at_its_place(place: Built) -> None:
    assert misplaced(place, (ROOT / place.file).read_text()) == []


@pytest.mark.parametrize(
    ("place", "one", "other"),
    [
        (PLACES[0], "reading.system_fingerprint,", "reading.weight_version,"),
        (PLACES[0], "facts.continues, ", "facts.begun_elsewhere,"),
        (PLACES[0], "        head.fallback,\n", ""),
        (PLACES[1], "reading.cached_input_tokens,", "reading.cache_write_tokens,"),
        (PLACES[2], "target.role, ", "target.attribution, "),
    ],
)
def test_two_values_that_change_places_are_found(place: Built, one: str, other: str) -> None:
    source = (ROOT / place.file).read_text()
    changed = source.replace(one, "\0").replace(other, one) if other else source.replace(one, "")
    assert misplaced(place, changed.replace("\0", other)) != []


def test_another_order_is_an_error_at_import() -> None:
    names = [each.name for each in fields(Usage)]
    check_order(Usage, names)
    for wrong in (names[1:], [*names, "more"], [names[1], names[0], *names[2:]]):
        with pytest.raises(TypeError, match="Usage is built by position"):
            check_order(Usage, wrong)
