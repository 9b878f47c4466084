"""Models of the calls that were recorded of a rollout."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from truezero.models.base import Subcategory


class Exchange(BaseModel):
    """One call. Token fields are the provider's own numbers, `*_total` the normalised ones.

    Further fields hold what validity checks read (docs/concepts/validity.md).
    """

    model_config = ConfigDict(extra="allow")

    id: str = Field(description="also the response header `x-truezero-exchange`")
    status: int | None = Field(description="HTTP status; null where no response head came")
    ending: str | None = Field(
        description="how it stopped: `complete`, `cut_upstream`, `left_by_agent`, "
        "`closed_at_outcome`, `timed_out`, `never_connected`, `lost`; null while in flight"
    )
    upstream: str = Field(description="name of the upstream")
    api: str = Field(description="the provider's API, such as `openai.chat`")
    model: str | None = Field(description="the model, as the agent asked for it")
    role: str = Field(description="`agent`, or the role in the path (`judge`, `user`, …)")
    streamed: bool | None = Field(description="whether the response was a stream")
    started_at: float = Field(description="seconds since the epoch")
    first_byte_s: float | None = Field(description="seconds to the response's first byte")
    first_token_s: float | None = Field(description="seconds to a stream's first output token")
    duration_s: float | None = Field(description="seconds to the last byte; null while in flight")
    input_tokens: int | None = Field(description="as the provider counts them")
    output_tokens: int | None = Field(description="as the provider counts them")
    cached_input_tokens: int | None = Field(description="input read from a cache")
    cache_write_tokens: int | None = Field(description="input written to a cache")
    reasoning_tokens: int | None = Field(description="output spent on reasoning")
    total_tokens: int | None = Field(description="as the provider counts them")
    input_total: int | None = Field(description="all input, cache reads and writes included")
    output_total: int | None = Field(description="all output, reasoning included")
    usage_source: str = Field(
        description="where counts came from: `provider`, `partial` (cut short), `header`, `absent`"
    )
    finish_reason: str | None = Field(description="why the model stopped, in the provider's word")
    tool_calls: int | None = Field(description="tool calls in the answer; null if unreadable")
    content_seen: bool | None = Field(
        default=None, description="whether a text or a tool call came, reasoning aside"
    )
    pending: bool | None = Field(
        default=None, description="whether a response in the background was not complete yet"
    )
    subcategory: Subcategory | None = Field(
        description="why the provider failed it; null: it did not"
    )
    transient: bool | None = Field(description="whether the cause passes by itself")
    rule: str | None = Field(description="the row of the cause table that says so")
    error_code: str | None = Field(description="the provider's own code, where allow-listed")
    retry_after_s: float | None = Field(description="the wait that the provider asks for, seconds")
    request_bytes: int = Field(description="length of the request body")
    response_bytes: int = Field(description="length of the response body, as received")
    attribution_source: str = Field(
        description="what named the rollout: `path`, `minted_key`, `header`, `borrowed_header`, "
        "`unattributed`"
    )
    injected: bool = Field(description="whether a drill's fault took the provider's place")


class ExchangePage(BaseModel):
    """A page of exchanges, oldest first."""

    items: list[Exchange] = Field(description="the calls")
    next: str | None = Field(description="value of `after` for the next page; null on the last")
