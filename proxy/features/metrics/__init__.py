"""Metrics: numbers of calls and of the service itself, for Prometheus.

A user reads of them in docs/operations/observability.md.
"""

from proxy.feature import Feature

FEATURE = Feature(serving=True, start=True, plane=True)
