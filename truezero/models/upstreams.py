"""Models of upstreams: how they did over a window of time."""

from __future__ import annotations

from pydantic import BaseModel, Field


class UpstreamCalls(BaseModel):
    """How some calls did; latencies are of answered calls in the sample, in seconds."""

    calls: int = Field(description="ended calls")
    refused: int = Field(
        description="of them, the agents' own bad requests, which are in no error rate"
    )
    failed: dict[str, int] = Field(description="failed calls by subcategory")
    error_rate: float | None = Field(
        description="share of the calls that were not refused; null where there are none"
    )
    failing_since: float | None = Field(
        description="from when on most calls failed, to the minute; null where they do not now"
    )
    last_at: float = Field(
        description="minute in which the last of them began, in seconds since the epoch"
    )
    sampled_calls: int = Field(description="answered calls that the latencies stand on")
    first_byte_p50_s: float | None = Field(description="median seconds to the first byte")
    first_byte_p95_s: float | None = Field(description="95th percentile of the same")
    duration_p50_s: float | None = Field(description="median seconds to the end")
    duration_p95_s: float | None = Field(description="95th percentile of the same")


class UpstreamModel(UpstreamCalls):
    """How the calls to one model did; null is a call that named none."""

    model: str | None = Field(description="that answered, else that was asked for")


class UpstreamKey(BaseModel):
    """One key, as a salted digest, and how many sampled calls it made."""

    key: str = Field(description="salted digest")
    sampled_calls: int = Field(description="of the sample")
    sampled_failed: int = Field(description="of them, failed by the provider")


class UpstreamStep(BaseModel):
    """One step of time from `at`, in seconds since the epoch."""

    at: float = Field(description="begin of the step")
    calls: int = Field(description="ended calls that began in it")
    failed: dict[str, int] = Field(description="failed calls by subcategory")
    first_byte_p50_s: float | None = Field(description="median seconds to the first byte")
    first_byte_p95_s: float | None = Field(description="95th percentile of the same")


class UpstreamItem(UpstreamCalls):
    """How the calls to one upstream did, also by model, by key and over time."""

    upstream: str = Field(description="its name in a base URL")
    origin: str = Field(description="where it is; empty where it is not configured any more")
    models: list[UpstreamModel] = Field(description="the busiest first")
    keys: list[UpstreamKey] = Field(description="the busiest first")
    points: list[UpstreamStep] = Field(description="every step of the window, oldest first")


class UpstreamReport(BaseModel):
    """`GET /upstreams`: the busiest first; times in seconds since the epoch.

    Latencies and keys stand on a sample of up to 4,000 inference calls, spread over the window.
    """

    since: float = Field(description="begin of the first step")
    until: float = Field(description="end of the last step")
    step_s: int = Field(description="seconds of one step")
    calls: int = Field(description="ended calls that began in the window")
    sampled_calls: int = Field(description="inference calls that latencies and keys stand on")
    items: list[UpstreamItem] = Field(description="the busiest first")
