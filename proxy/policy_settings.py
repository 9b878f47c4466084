"""The settings that say how rollouts are judged."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, Field

from classifier.verdicts import Policy

_POLICY = (
    "stall_s",
    "doomed_after",
    "agents",
    "validity",
    "max_steps",
    "content_filter",
    "max_retries",
    "breaker_threshold",
)


def seconds(default: float, description: str, *, ge: float | None = None) -> Any:
    """Declare a setting in seconds, more than 0 unless a least value is given."""
    gt = 0 if ge is None else None
    return Field(default, gt=gt, ge=ge, description=f"{description}, in seconds")


class PolicySettings(BaseModel):
    """How rollouts are judged, retries advised and batches stopped."""

    breaker_threshold: int = Field(
        5,
        ge=0,
        description="consecutive equal permanent failures that open a lane's breaker; 0: never",
    )
    max_retries: int = Field(
        2, ge=0, description="maximum retries advised after transient failures; 0: none"
    )
    agents: Literal["trusted", "untrusted"] = Field(
        "trusted", description="`untrusted`: agents may fail calls themselves to lose a score"
    )
    validity: Literal["invalid", "suspect", "none"] = Field(
        "invalid", description="the mildest validity finding that makes a rollout not scoreable"
    )
    max_steps: Literal["score", "exclude"] = Field(
        "score", description="whether rollouts that ran out of steps are scored"
    )
    content_filter: Literal["failure", "answer"] = Field(
        "failure",
        description="what a content filter on a request is: a rejected request, which takes the "
        "reward away, or the `answer` of the system under test",
    )
    doomed_after: int = Field(
        2, ge=0, description="equal permanent failures after which a rollout is doomed; 0: never"
    )
    stall_s: float = seconds(
        60.0,
        "time between two content events of a stream after which a call abandoned "
        "by its agent is stalled",
    )
    first_content_s: float = seconds(300.0, "the same before a stream's first content")
    whole_answer_s: float = seconds(600.0, "the same for an answer that is not streamed")

    @property
    def policy(self) -> Policy:
        """The policy by which rollouts are judged and retries advised."""
        return Policy(**{name: getattr(self, name) for name in _POLICY})
