"""Traces: a span of each call and each verdict, for an OpenTelemetry collector.

A user reads of them in docs/operations/observability.md.
"""

from proxy.feature import Feature

FEATURE = Feature(settings=True, serving=True, start=True)
