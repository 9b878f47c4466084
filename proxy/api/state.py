"""What routes get of the application that they belong to: parameters read from `app.state`.

Making a route takes a millisecond, so a process makes each once, for all its applications:
nothing of one may be in a route.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from fastapi import Depends, Request

from proxy.control.services import ControlServices
from proxy.routing.errors import RateLimiter

Address = Callable[[Request], str]  # the base URL handed to agents, by a runner's request


def of_app(name: str) -> Any:
    """Make the dependency on an attribute of `app.state`."""

    async def read(request: Request) -> Any:  # async, or FastAPI would call it in a thread
        return getattr(request.app.state, name)

    return Depends(read)


Services = Annotated[ControlServices, of_app("services")]
Limiter = Annotated[RateLimiter, of_app("limiter")]  # of registrations
# Maps an `Accept` header to the metrics and their content type; called in a thread.
Exposition = Annotated[Callable[[str], tuple[bytes, str]], of_app("exposition")]
Version = Annotated[str, of_app("version")]


def base_url(request: Request) -> str:
    """Return the base URL handed to agents."""
    address: Address = request.app.state.address
    return address(request)


async def _step(request: Request) -> None:
    request.app.state.limiter.step()


LIMITED = [Depends(_step)]  # dependencies of a route that registers one rollout
