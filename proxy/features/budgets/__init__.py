"""Budgets: limits on the calls, tokens, cost and time of a rollout, or of a batch together.

A user reads of them in docs/guides/budgets.md.
"""

from proxy.feature import Feature

FEATURE = Feature(
    settings=True, tables=True, registration=True, upkeep=True, start=True, plane=True
)
