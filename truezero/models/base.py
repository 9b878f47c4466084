"""Field types that several models of the REST contract share."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
)

ExecutionStatus = Literal[
    "success",
    "agent_error",
    "environment_error",
    "user_error",
    "task_timeout",
    "unknown_execution_error",
    "evaluation_failed",
    "setup_failed",
    "cancelled",
]
TerminationReason = Literal["agent_stop", "user_stop", "max_steps", "unknown"]
Health = Literal["healthy", "api_error", "suspected_api_error", "not_judged", "undecided"]
Subcategory = Literal[
    "auth", "quota", "model_not_found", "rate_limit", "provider_error", "rejected_request"
]


def _known_or_text(value: Any, known: ValidatorFunctionWrapHandler) -> Any:
    try:
        return known(value)
    except ValidationError:
        if isinstance(value, str):
            return value
        raise


T = TypeVar("T")
Known = Annotated[T, WrapValidator(_known_or_text)]
"""A field of an answer that takes a word of a later service as text; a request takes none."""


class StrictRequest(BaseModel):
    """A request body that rejects unknown fields, NaN and infinity."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


def _printable(value: str | None) -> str | None:
    if value is not None and not value.isprintable():
        raise ValueError("must not contain control characters")
    return value


def _plain_json(value: dict[str, Any] | None) -> dict[str, Any] | None:
    """Reject what not every JSON reader can read back: NaN, half of a surrogate pair."""
    try:
        json.dumps(value, allow_nan=False, ensure_ascii=False).encode()
    except ValueError:
        raise ValueError("must hold finite numbers and valid Unicode only") from None
    return value


def _not_the_agent(role: str) -> str:
    if role == "agent":
        raise ValueError("the agent's own access needs no role")
    return role


def _encodable(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError("must be valid Unicode") from None
    return text


PrintableText = AfterValidator(_printable)
Name = Annotated[str | None, Field(min_length=1, max_length=200), PrintableText]
# As in a path: `/r/{rollout}/as/{role}/…`.
Role = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,39}$"), AfterValidator(_not_the_agent)]
Count = Annotated[int | None, Field(ge=0, le=2**53)]  # what every JSON reader keeps exactly
Ordinal = Annotated[int | None, Field(ge=0, le=2**31 - 1)]  # what both databases hold
Repeat = Annotated[
    int | None,
    Field(ge=0, le=2**31 - 1, description="which sample of the task; `attempt`: which try of it"),
]
Repeats = Annotated[
    int | None,
    Field(
        ge=1,
        le=10_000,
        description="how many samples of the task the batch is to have; with that many judged, "
        "its group has settled",
    ),
]


def _ascending(bounds: tuple[float, float] | None) -> tuple[float, float] | None:
    if bounds is not None and bounds[0] >= bounds[1]:
        raise ValueError("must be [least, greatest], the least below the greatest")
    return bounds


RewardRange = Annotated[
    tuple[float, float] | None,
    AfterValidator(_ascending),
    Field(
        description="least and greatest reward, of the batch; all its rollouts name the same, or "
        "none",
    ),
]
_MODEL = Annotated[str, Field(min_length=1, max_length=200), PrintableText]
_MODELS = Annotated[list[_MODEL], Field(min_length=1, max_length=16)]
# A tag is part of the field's name in an error: none for a name, `model.list.0` in a list.
ModelNames = (
    Annotated[
        Annotated[_MODEL, Tag("")] | Annotated[_MODELS, Tag("list")],
        Discriminator(lambda value: "list" if isinstance(value, list) else ""),
    ]
    | None
)
JsonObject = Annotated[dict[str, Any] | None, AfterValidator(_plain_json)]
Text = Annotated[str, AfterValidator(_encodable)]
