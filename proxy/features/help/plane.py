"""The part of help in the dashboard: its pages."""

from proxy.features.help.pages import manual_router
from proxy.plane import Plane

PLANE = Plane(routes=manual_router().routes)
