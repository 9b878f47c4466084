"""Deletion of what is old: the command `truezero prune`.

A user reads of it in docs/operations/data.md.
"""

from proxy.feature import Feature

FEATURE = Feature()
