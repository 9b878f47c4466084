"""Help: the documentation, rendered in the dashboard's own template, and searched.

A user reads of it in docs/index.md, which is its first page.
"""

from proxy.feature import Feature

FEATURE = Feature(manual=True, plane=True)
