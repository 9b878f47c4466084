"""Each refusal is made in one place, those of agents' calls in `proxy.routing.refusals`."""

from __future__ import annotations

import ast
import inspect
from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import get_args

from proxy.routing import refusals
from proxy.routing.errors import Refusal, RefusalCode

ROOT = Path(__file__).parent.parent.parent.parent
HOME = "proxy/routing/refusals.py"

CODES = frozenset(get_args(RefusalCode))
# Codes that several modules make, each of what it reads itself.
SEVERAL = {
    "gone", "invalid", "not_found",
    # of an agent's call, and of a question to the control plane
    "cross_origin", "unknown_host", "unknown_key", "unknown_upstream",
    "no_websocket", "storage_unavailable", "unknown_rollout",
}  # fmt: skip
# Whose code the caller's table has.
OF_A_PROVIDER = {"upstream_unanswered", "upstream_status"}


@cache
def made() -> dict[str, set[str]]:
    """The modules in which a `Refusal` is made, by its code; without a literal one by ``""``."""
    found: dict[str, set[str]] = defaultdict(set)
    for path in sorted((ROOT / "proxy").rglob("*.py")):
        text = path.read_text("utf-8")
        if "Refusal(" not in text:
            continue
        for node in ast.walk(ast.parse(text)):
            match node:
                case ast.Call(func=ast.Name(id="Refusal"), args=[_, code, *_]):
                    literal = code.value if isinstance(code, ast.Constant) else ""
                    found[str(literal)].add(path.relative_to(ROOT).as_posix())
    return found


def test_the_road_of_a_call_makes_no_refusal_elsewhere() -> None:
    modules = set().union(*made().values())
    road = {each for each in modules if each.startswith(("proxy/relay/", "proxy/routing/"))}
    assert road == {HOME, "proxy/routing/errors.py"}
    assert [code for code in made() if "proxy/routing/errors.py" in made()[code]] == [
        "too_many_registrations"
    ]


def test_a_refusal_is_made_in_one_module() -> None:
    once = made().keys() - SEVERAL - {""}
    assert once <= CODES
    assert {code: made()[code] for code in once if len(made()[code]) > 1} == {}


def test_a_function_is_named_after_the_code_of_what_it_makes() -> None:
    functions = {
        name: function
        for name, function in inspect.getmembers(refusals, inspect.isfunction)
        if function.__module__ == refusals.__name__ and not name.startswith("_")
    }
    codes = {}
    for name in functions.keys() - OF_A_PROVIDER:
        given = ["x"] * len(inspect.signature(functions[name]).parameters)
        refusal = functions[name](*given)
        assert isinstance(refusal, Refusal)
        codes[name] = refusal.code
    assert {name: code for name, code in codes.items() if not name.startswith(code)} == {}
    assert functions.keys() >= OF_A_PROVIDER
