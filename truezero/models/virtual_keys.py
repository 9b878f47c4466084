"""Models of virtual keys, compatible with the key API of LiteLLM's proxy: one key, one rollout."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Annotated, Any, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from truezero.models.base import JsonObject, Name, StrictRequest

_DURATION = re.compile(r"(\d{1,9})(s|m|h|d|w|mo)")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800, "mo": 2_592_000}


def _in_seconds(value: object) -> object:
    """Parse LiteLLM's duration format: `30s`, `20m`, `1h`, `7d`, `2w`, `1mo` (30 days)."""
    if not isinstance(value, str | bool):
        return value
    match = _DURATION.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None:
        raise ValueError("must be a number followed by s, m, h, d, w or mo")
    return int(match[1]) * _SECONDS[match[2]]


Duration = Annotated[int, BeforeValidator(_in_seconds), Field(ge=0, le=10**9)]


class KeyRequest(BaseModel):
    """`POST /key/generate`, as LiteLLM's proxy accepts it: one key, one rollout.

    ``key_alias`` becomes the rollout's id and task, ``team_id`` its batch. Budgets, rate
    limits and model lists are accepted but not enforced; unknown fields are ignored.
    """

    model_config = ConfigDict(extra="ignore", allow_inf_nan=False)

    key_alias: Name = Field(default=None, description="id and task of the key's rollout")
    team_id: Name = Field(default=None, description="batch of the key's rollout")
    user_id: Name = Field(default=None, description="yours; stored as it is")
    duration: Duration | None = Field(
        default=None,
        description="lifetime of the key, such as `20m`",
        json_schema_extra={"type": "string"},
    )
    models: list[str] | None = Field(default=None, description="stored, not enforced")
    metadata: JsonObject = Field(default=None, description="yours; stored as it is")
    key: None = Field(default=None, description="not supported: keys are generated")


class KeyFacts(BaseModel):
    """A key as LiteLLM's proxy describes it, and the rollout it belongs to.

    A limit that is not enforced is null, whatever the request said.
    """

    key_name: str = Field(description="the key's last four characters: `tz-...a1b2`")
    key_alias: str | None = Field(description="as in the request")
    token_id: str = Field(description="the rollout's id; not secret")
    rollout_id: str = Field(description="the rollout that its calls belong to")
    team_id: str | None = Field(description="the rollout's batch")
    user_id: str | None = Field(description="as in the request")
    models: list[str] = Field(description="as in the request; not enforced")
    metadata: dict[str, Any] = Field(description="as in the request")
    expires: datetime | None = Field(description="null: it does not")
    created_at: datetime = Field(description="when it was generated")
    blocked: bool = Field(description="no longer accepted: deleted, expired or rollout over")
    spend: float | None = Field(description="US dollars; null where a call's cost is unknown")
    max_budget: None = Field(default=None, description="not enforced")
    tpm_limit: None = Field(default=None, description="not enforced")
    rpm_limit: None = Field(default=None, description="not enforced")


class KeyMinted(KeyFacts):
    """The answer to `POST /key/generate`."""

    key: str = Field(repr=False, description="the API key, `tz-…`; not shown again")
    base_urls: dict[str, str] = Field(
        repr=False, description="upstream → base_url; works with or without the key"
    )


class KeyInfo(BaseModel):
    """The answer to `GET /key/info`."""

    key: str = Field(description="as in the request")
    info: KeyFacts = Field(description="the key's attributes")


class KeyDeletion(StrictRequest):
    """`POST /key/delete`: keys, or the aliases they were created under."""

    keys: list[str] | None = Field(default=None, description="keys to revoke")
    key_aliases: list[str] | None = Field(default=None, description="aliases of keys to revoke")

    @model_validator(mode="after")
    def _some(self) -> Self:
        if not (self.keys or self.key_aliases):
            raise ValueError("keys or key_aliases is required")
        return self


class KeysDeleted(BaseModel):
    """The answer to `POST /key/delete`: the keys or aliases of the request."""

    deleted_keys: list[str] = Field(description="what was revoked, as it was named")
