"""The generated tables of docs/concepts/judging.md and validity.md, and their examples.

Rules and warnings have the words of the pages (``proxy/web/format.py``), checks those of their
docstrings.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from typing import Any, Final

from classifier.references import NotRun
from classifier.rules import RULES, WARNINGS, judge
from classifier.validity import CHECKS
from classifier.validity.measurement import ValidityCheck
from classifier.verdicts import Verdict
from classifier.weighing import WEIGHED
from proxy.web import format
from tests.builders import asked, rollout
from tests.reference_pages import table

# What each rule and warning is judged of, in the language of tests.builders.
RULE_EXAMPLES: Final[Mapping[str, str]] = {
    "not_judged": "401 prompts_executed=0",
    "undecided": "200+tool lost",
    "all_failed": "429*2 500",
    "main_model_failed": "200+side 404*2",
    "interrupted": "200+tool 429+quota*2 400+malformed",
    "zero_signal": "200+embed",
    "unread_answers": "200+garbled*2",
    "empty_answers": "200+empty*2",
    "never_answered": "200+side left*2",
    "unexplained_rejections": "200+tool 400*2",
    "own_failures": "401#other*2 agents=untrusted",
    "healthy": "200+tool 503 200",
}
WARNING_EXAMPLES: Final[Mapping[str, str]] = {
    "calls_lost": "200+tool lost",
    "calls_unrecorded": "200+tool gaps=1",
    "calls_unattributed": "200+embed unattributed_calls=2",
    "calls_in_flight": "200+tool pending",
    "calls_never_answered": "left*2",
    "error_before_any_call": "status=agent_error",
    "calls_bypass_the_proxy": "total_tokens=500",
    "bound_model_not_seen": "200+tool model=o3",
    "ended_on_rejection": "200+tool 400+malformed",
    "ended_on_unexplained_rejection": "200+tool 400",
    "ended_on_unread_answers": "200+tool+read 200+garbled*2",
    "ended_on_lost_state": "200+tool 400+lost_state",
    "ended_on_failure": "200+tool 503 200+tool@o3",
    "refused_by_harness": "200+tool 429+harness_budget",
    "context_length": "200+tool 400+context_length 200",
    "content_filter": "200+tool 400+content_filter 200",
    "refusals": "200+refusal",
    "truncated_by_max_tokens": "200+length",
    "empty_answers": "200+empty 200+tool",
    "left_by_agent": "200+tool left",
    "left_while_held": "200+tool held",
    "request_repeated": "200+tool 500 500+again*20 200",
    "usage_missing": "200+nousage",
    "answers_unread": "200+unread",
    "answers_unseen": "200+unseen 200+read",
    "nothing_read": "302+empty",
    "failed_by_agent": "200+tool 500+twice",
    "provoked_suspected": "200+tool 404@o3 agents=untrusted",
    "no_reference": "200+tool 429+quota agents=untrusted reference=no_key",
    "reference_pending": "200+tool 503 agents=untrusted reference=running",
    "reference_partly": "200+tool 503 agents=untrusted reference=ok+provider_error",
    "reference_inconclusive": "200+tool 503 agents=untrusted reference=refused",
}


def rules() -> str:
    """The rules in their order, the words of the pages, and the health of their examples."""
    names = [*(rule.__name__.strip("_") for rule in RULES), "healthy"]
    return table(
        ("rule", "health", "fires if", "example"),
        (
            (
                f"`{name}`",
                verdict_on(RULE_EXAMPLES[name]).health.value,
                format.RULES[name],
                f"`{RULE_EXAMPLES[name]}`",
            )
            for name in names
        ),
    )


def warnings() -> str:
    names = [*(name for name, _ in WARNINGS), *WEIGHED]
    return table(
        ("warning", "meaning", "example"),
        (
            (
                f"`{name}`",
                format.WARNINGS[name],
                f"`{WARNING_EXAMPLES[name]}`" if name in WARNING_EXAMPLES else "–",
            )
            for name in names
        ),
    )


def _check(check: ValidityCheck) -> tuple[str, str, str]:
    """Return what a check's docstring says that it finds, at which levels, and what it covers."""
    text = inspect.getdoc(check.look) or ""
    found = re.fullmatch(
        r"Find (?:that )?(.+?)\.\n\nLevels: (.+?)\.\n\nCovered: (.+?)\.(?:\n\n.*)?", text, re.DOTALL
    )
    assert found is not None, f"{check.name}: Find …, Levels: …, Covered: …"
    return found[1].replace("``", "`"), found[2], found[3]


def checks() -> str:
    rows = []
    for check in CHECKS:
        finds, levels, _ = _check(check)
        rows.append((f"`{check.name}`", finds, levels, "yes" if check.agent_can_cause else "no"))
    return table(("check", "finds", "levels", "agent can cause"), rows)


def coverage() -> str:
    return table(
        ("check", "a call is covered where"),
        ((f"`{check.name}`", _check(check)[2]) for check in CHECKS),
    )


def generated() -> dict[str, str]:
    """Return the pages' generated parts: ``file#marker`` → Markdown."""
    return {
        "docs/concepts/judging.md#rules": rules(),
        "docs/concepts/judging.md#warnings": warnings(),
        "docs/concepts/validity.md#checks": checks(),
        "docs/concepts/validity.md#coverage": coverage(),
    }


def verdict_on(example: str) -> Verdict:
    """Judge calls in the language of ``tests.builders``, and ``name=value`` of the runner.

    ``reference=ok+auth`` are the reference calls beside its failures.
    """
    words = example.split()
    said: dict[str, Any] = dict(word.split("=") for word in words if "=" in word)
    said |= {name: int(value) for name, value in said.items() if value.isdigit()}
    reference = said.pop("reference", None)
    seen = rollout(*(word for word in words if "=" not in word), **said)
    if reference == NotRun.NO_KEY:
        seen = asked(seen, not_run=NotRun.NO_KEY)
    elif reference == "running":
        seen = asked(seen, running=True)
    elif reference is not None:
        seen = asked(seen, reference.replace("+", " "))
    return judge(seen)
