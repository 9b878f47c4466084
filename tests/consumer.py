"""A project that uses truezero as its users do: what its types say of it must be true.

`make dist` checks this file with mypy and pyright against the installed wheel.
"""

from __future__ import annotations

import asyncio
from typing import assert_type

import classifier
import truezero
from truezero import AsyncClient, Client, models


def measured(url: str) -> models.Verdict:
    """Run one rollout and return its verdict."""
    with Client(url) as client, client.batch("nightly", model="gpt-5") as batch:
        with batch.rollout("task-1") as rollout:
            assert_type(rollout.base_urls["openai"], str)
            rollout.finish(rewards={"reward": 1.0}, tool_calls=3)
        verdict = client.verdict(rollout.id)
        assert_type(verdict.cost_usd, float | None)
        assert_type(client.summary("nightly"), models.BatchSummary)
    return verdict


async def zero_is_true(url: str, rollout_id: str) -> bool:
    """Return whether a zero counts."""
    async with AsyncClient(url) as client:
        try:
            verdict = await client.verdict(rollout_id)
        except truezero.ServiceError as error:
            assert_type(error.status, int | None)
            return False
    return verdict.health == "healthy"


def without_a_service(answer: classifier.FailureEvidence) -> classifier.Cause | None:
    """Name the cause of a failed call offline."""
    assert_type(answer.status, int | None)
    return classifier.classify(answer)


if __name__ == "__main__":
    measured("http://127.0.0.1:8383")
    asyncio.run(zero_is_true("http://127.0.0.1:8383", "task-1"))
