"""The guards find what a merge of tests loses: a test, a line, a change that nobody notices."""

from __future__ import annotations

import ast
import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests import guards
from tests.guards import (
    collected,
    drawn,
    dropped,
    executed,
    functions,
    functions_of,
    lost_lines,
    lost_mutants,
    lost_names,
    mutable,
    mutant,
    mutated,
    try_mutants,
)
from tests.house import ROOT

pytestmark = pytest.mark.slow

PRODUCT = """\
class Account:
    def __init__(self) -> None:
        self.balance = 0

    def pay(self, sum: int) -> bool:
        if sum > self.balance:
            return False
        self.balance = self.balance - sum
        return True
"""
TESTS = """\
from bank.account import Account


class TestPaying:
    def test_enough(self):
        account = Account()
        account.balance = 5
        assert account.pay(3) is True
        assert account.balance == 2

    def test_too_little(self):
        assert Account().pay(1) is False


def test_begins_with_nothing():
    assert Account().balance == 0
"""
PAY = next(each for each in functions_of(PRODUCT, "bank/account.py") if each.name == "Account.pay")
WITHOUT_REFUSAL = TESTS.replace("assert Account().pay(1) is False", "Account()")


@pytest.fixture(autouse=True)
def _without_plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    """Begin pytest in a third of the time; the few tests here need no plugin."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")


def tree(folder: Path, tests: str, place: str = "test_account.py") -> Path:
    """Write a product of one module and its tests."""
    (folder / "bank").mkdir(parents=True)
    (folder / "bank/__init__.py").touch()
    (folder / "bank/account.py").write_text(PRODUCT)
    (folder / place).write_text(tests)
    return folder


def mutants(root: Path, *, only: int | None = None) -> dict[str, str]:
    results: dict[str, str] = {}
    tests = executed(root, [], ["bank"]).tests
    try_mutants(root, tests, results, only=only, keep=lambda _: None, packages=["bank"])
    return results


# --- names ---------------------------------------------------------------------------------


def test_a_test_that_moves_is_the_same_test(tmp_path: Path) -> None:
    before = collected(tree(tmp_path / "a", TESTS))
    after = collected(tree(tmp_path / "b", TESTS, "test_elsewhere.py"))
    assert before == after == Counter(
        {"TestPaying::test_enough": 1, "TestPaying::test_too_little": 1,
         "test_begins_with_nothing": 1}
    )  # fmt: skip


def test_a_test_that_goes_is_lost_unless_its_reason_is_given() -> None:
    before = {"test_a": 2, "test_b[1]": 1, "test_b[2]": 1, "T::test_c": 1}
    assert lost_names(before, {"test_a": 1, "test_b[1]": 1, "test_d": 9}, set()) == [
        "T::test_c", "test_a", "test_b[2]"
    ]  # fmt: skip
    allowed = dropped("# gone\ntest_a: one for each road\nT::test_c: held by test_d\n")
    assert lost_names(before, {"test_a": 1, "test_b[1]": 1}, allowed) == ["test_b[2]"]


# --- coverage ------------------------------------------------------------------------------


def test_a_branch_that_no_test_takes_any_more_is_lost(tmp_path: Path) -> None:
    before = executed(tree(tmp_path / "a", TESTS), [], ["bank"])
    after = executed(tree(tmp_path / "b", WITHOUT_REFUSAL, "test_b.py"), [], ["bank"])
    assert lost_lines(before.lines, before.lines) == {}
    assert lost_lines(before.lines, after.lines) == {PAY.key: ["1-2", "2"]}


def test_a_function_that_moves_is_the_same_and_one_that_changes_is_not() -> None:
    moved = "import os\n\n\n" + PRODUCT.replace("Account:", "Purse:")
    changed = PRODUCT.replace("sum >", "sum >=")
    documented = PRODUCT.replace("-> bool:\n", "-> bool:\n" + 8 * " " + '"""Pay."""\n')
    for text, same in ((moved, True), (changed, False), (documented, True)):
        keys = {function.key for function in functions_of(text, "bank/purse.py")}
        assert (PAY.key in keys) is same


# --- mutants -------------------------------------------------------------------------------


def test_each_mutant_is_one_change_that_python_accepts() -> None:
    sources = {mutant(PAY, number) for number in range(len(mutable(PAY)))}
    assert "if not sum > self.balance" in "".join(sources)
    assert ast.unparse(PAY.node) not in sources
    assert len(sources) == len(mutable(PAY)) >= 6
    for number in range(len(mutable(PAY))):
        ast.parse(mutated(PRODUCT, PAY, number))
        assert mutated(PRODUCT, PAY, number).startswith(PRODUCT[: PRODUCT.index("    def pay")])


def test_the_same_are_drawn_again_whatever_else_there_is() -> None:
    few = functions(ROOT, ["classifier"])
    chosen = [(function.key, number) for function, number in drawn(few, 50)]
    assert chosen == [(function.key, number) for function, number in drawn(few[::-1], 50)]
    without = [function for function in few if function.key != chosen[0][0]]
    assert [(function.key, number) for function, number in drawn(without, 49)] == chosen[1:]


def test_a_mutant_that_tests_noticed_and_merged_ones_do_not_is_lost(tmp_path: Path) -> None:
    before = mutants(tree(tmp_path / "a", TESTS))
    weaker = TESTS.replace("is True", "or True").replace("assert account.balance == 2", "")
    after = mutants(tree(tmp_path / "b", weaker))
    assert set(before.values()) == {"found"}
    assert lost_mutants(before, before) == []
    assert lost_mutants(before, after) != []


def test_an_interrupted_run_goes_on_and_leaves_the_tree_as_it_was(tmp_path: Path) -> None:
    root, kept = tree(tmp_path, TESTS), dict[str, str]()
    tests = {function.key: ["some"] for function in functions(root, ["bank"])}
    seen: list[str] = []

    def run(tree: Path, _: Sequence[str], patience_s: float | None) -> bool:
        seen.append((tree / "bank/account.py").read_text())
        return patience_s is None  # as it is they pass

    try_mutants(root, tests, kept, only=1, keep=lambda _: None, packages=["bank"], run=run)
    first = dict(kept)
    assert list(first.values()) == ["found"]
    try_mutants(root, tests, kept, only=None, keep=lambda _: None, packages=["bank"], run=run)
    assert first.items() < kept.items()
    assert seen[0::2] == [PRODUCT] * len(kept)
    assert PRODUCT not in seen[1::2]
    assert (root / "bank/account.py").read_text() == PRODUCT


# --- command line --------------------------------------------------------------------------


def test_a_loss_is_named_and_exits_with_1(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(guards, "ROOT", tree(tmp_path, TESTS))
    file, here = tmp_path / "names.json", ["--", "test_account.py"]
    assert guards.main(["names", "--record", str(file), *here]) == 0
    assert guards.main(["names", "--against", str(file), *here]) == 0
    file.write_text(json.dumps(json.loads(file.read_text()) | {"test_that_went": 1}))
    assert guards.main(["names", "--against", str(file), *here]) == 1
    assert "lost: test_that_went" in capsys.readouterr().out
