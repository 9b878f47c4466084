"""Alerts: a webhook is told what is wrong, once, and again only after it was over.

A user reads of them in docs/operations/observability.md.
"""

from proxy.feature import Feature

FEATURE = Feature(settings=True, start=True)
