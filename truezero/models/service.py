"""Models of the service's own state: health checks and errors."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class Alive(BaseModel):
    """`GET /healthz`: the process is up."""

    status: Literal["ok"] = Field(description="always `ok`")
    version: str = Field(description="release of the service")


class Ready(BaseModel):
    """`GET /readyz`: 503 while the database or the recorder is unavailable."""

    status: Literal["ready", "not_ready"] = Field(description="`ready` if both work")
    database: bool = Field(description="whether the database answers")
    recorder: bool = Field(description="whether calls can be written")
    gaps: int = Field(description="calls served but not recorded since start")
    waiting: int = Field(description="exchanges not yet written")


class Problem(BaseModel):
    """Problem JSON (RFC 9457); `code` is for programs, `detail` for people."""

    model_config = ConfigDict(extra="allow")

    type: str = Field(description="`about:blank`")
    title: str = Field(description="the HTTP status in words")
    status: int = Field(description="the HTTP status")
    detail: str = Field(description="what is wrong, as a sentence")
    code: str = Field(description="a stable word; also the header `x-truezero-refusal`")
