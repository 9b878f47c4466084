"""The setting of budgets."""

from __future__ import annotations

from pydantic import BaseModel, Field


class BudgetSettings(BaseModel):
    """The output tokens that a call reserves if its request names no output limit."""

    reserved_output_tokens: int = Field(
        4096,
        ge=1,
        description="output tokens that a call reserves of [limits](../guides/budgets.md) if its "
        "request names no output limit",
    )


SETTINGS = BudgetSettings
