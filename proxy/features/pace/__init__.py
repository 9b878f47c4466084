"""Pace: calls to a model wait for their turn, so that they stay within its provider's limits.

A user reads of it in docs/guides/pace.md.
"""

from proxy.feature import Feature

FEATURE = Feature(settings=True, tables=True, start=True, plane=True)
