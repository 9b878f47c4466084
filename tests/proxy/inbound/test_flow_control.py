"""Pauses of a connection's two directions."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from proxy.inbound.response import FlowControl


class Transport:
    """Counts pauses."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def pause_reading(self) -> None:
        self.calls.append("pause")

    def resume_reading(self) -> None:
        self.calls.append("resume")


def flow_control() -> tuple[FlowControl, Transport]:
    transport: Any = Transport()
    return FlowControl(cast(asyncio.Transport, transport), asyncio.get_running_loop()), transport


async def test_reading_pauses_and_resumes_once_each() -> None:
    flow, transport = flow_control()
    flow.resume_reading()
    flow.pause_reading()
    flow.pause_reading()
    flow.resume_reading()
    flow.resume_reading()
    assert transport.calls == ["pause", "resume"]


async def test_everyone_who_waits_for_room_is_woken() -> None:
    flow, _ = flow_control()
    flow.write_paused = True
    waiting = [asyncio.create_task(flow.drain()) for _ in range(3)]
    await asyncio.sleep(0)
    waiting[0].cancel()
    await asyncio.wait(waiting[:1])
    assert not any(task.done() for task in waiting[1:])
    flow.resume_writing()
    await asyncio.gather(*waiting[1:])
    assert not flow.write_paused
