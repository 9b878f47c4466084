"""Relayed calls of drilled agents, step by step; see `tests.golden.calls`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any, get_args

from proxy.features.drills.rule import DrilledCalls
from proxy.relay.admission import Access, AccessState
from proxy.relay.context import CallLimits
from tests.features.drills.each_first import OneCall
from tests.golden.calls import (
    ASKED,
    HEADS,
    PATIENCE_S,
    STREAMED,
    WANTED,
    Case,
    Step,
    head,
    sized,
    usage,
)
from truezero.models import Fault, FaultKind


class Drilled(Access):
    """The access of a rollout whose every call meets a fault."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(
            look_up=lambda _: AccessState(rules={DrilledCalls(OneCall()): fault}),
            answered=lambda *_: False, wall=lambda: 100.0, clock=time.monotonic,
        )  # fmt: skip
        self.changed("r1")


def _faults() -> Iterator[tuple[str, Case]]:
    def drilled(kind: FaultKind, **limits: Any) -> Callable[[], dict[str, Any]]:
        fault = Fault(kind=kind, delay_s=0.05)
        return lambda: {"access": Drilled(fault), "limits": CallLimits(**limits)}

    for kind in get_args(FaultKind):
        if kind == "replay":  # which needs calls to play
            continue
        limits = {"read_s": 0.1} if kind == "hang" else {}
        for name, body in (("whole", ASKED), ("streamed", STREAMED), ("with usage", WANTED)):
            steps: tuple[Step, ...] = (("send", sized(body) + body),)
            yield f"fault: {kind}, {name}", Case(steps=steps, rules=drilled(kind, **limits))
    parts: tuple[Step, ...] = (
        ("send", sized(ASKED) + ASKED[:20]), ("begin",), ("send", ASKED[20:])
    )  # fmt: skip
    yield "fault in parts", Case(steps=parts, rules=drilled("rate_limit"))
    yield (
        "fault with usage to be asked for",
        Case(
            steps=(("send", sized(STREAMED) + STREAMED),),
            rules=lambda: {**drilled("stream_error")(), **usage()},
        ),
    )
    yield (
        "fault on HEAD",
        Case(
            steps=(("send", head(b"HEAD", b"/r/r1/openai/v1/models")), ("ask",), *HEADS["whole"]),
            rules=drilled("rate_limit"),
        ),
    )
    yield "slow fault, too slow", Case(
        steps=(("send", sized(ASKED) + ASKED),),
        rules=lambda: {"access": Drilled(Fault(kind="slow", delay_s=PATIENCE_S)),
                       "limits": CallLimits(read_s=0.1)},
    )  # fmt: skip
    hangs: tuple[Step, ...] = (("send", sized(ASKED) + ASKED), ("begin",))
    for what, step in (("agent left", ("leave",)), ("rollout ends", ("end_rollout",)),
                       ("server stops", ("stop",))):  # fmt: skip
        yield f"fault, {what}", Case(steps=(*hangs, step), rules=drilled("hang"))


CASES: dict[str, Case] = dict(_faults())
