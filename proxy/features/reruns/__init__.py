"""Reruns: each repeat of a batch that has no score, by what is to be done before it runs again.

A user reads of them in docs/concepts/batches.md.
"""

from proxy.feature import Feature

FEATURE = Feature(plane=True)
