"""Asks a truezero service over REST, for runners and for the command line.

It never guesses: a service that does not answer is an error, not a healthy verdict.
"""

from __future__ import annotations

import os
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

import httpx

from truezero import models

DEFAULT_URL = "http://127.0.0.1:8383"


class ServiceError(Exception):
    """A service that is not there, or that refused; the sentence says which and why.

    ``status`` is the HTTP status, None where no answer came; ``code`` the problem's word.
    """

    def __init__(
        self, sentence: str, *, status: int | None = None, code: str | None = None
    ) -> None:
        super().__init__(sentence)
        self.status = status
        self.code = code


class Client:
    """A runner's connection to one service.

    Arguments:
        url: by default ``TRUEZERO_URL``, else the address ``truezero serve`` listens on.
        token: by default ``TRUEZERO_ADMIN_TOKEN``; needed where the service has one.
        transport: for tests.
    """

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        timeout_s: float = 30.0,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self.url = (url or os.environ.get("TRUEZERO_URL") or DEFAULT_URL).rstrip("/")
        token = token or os.environ.get("TRUEZERO_ADMIN_TOKEN")
        headers = {"authorization": f"Bearer {token}"} if token else {}
        self._http = httpx.Client(
            base_url=self.url, headers=headers, timeout=timeout_s, transport=transport
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def register(self, **facts: Any) -> models.RolloutRegistered:
        """Announce a rollout; ``facts`` are the fields of `POST /rollouts`."""
        answer = self._ask("POST", "/rollouts", json=facts)
        return models.RolloutRegistered.model_validate(answer)

    def report(self, rollout_id: str, **seen: Any) -> models.Result:
        """Say what the runner saw; ``seen`` are the fields of `POST …/outcome`."""
        answer = self._ask("POST", f"{_at(rollout_id)}/outcome", json=seen)
        return models.Result.model_validate(answer)

    def verdict(
        self, rollout_id: str, *, settled: bool = False, timeout_s: float = 10.0,
        policy: str | None = None,
    ) -> models.Verdict:  # fmt: skip
        """Judge a rollout; ``settled`` waits for its calls in flight."""
        asked: dict[str, str | float] = {}
        if settled:
            asked = {"wait": "settled", "timeout_s": timeout_s}
        if policy:
            asked["policy"] = policy
        answer = self._ask("GET", f"{_at(rollout_id)}/verdict", params=asked)
        return models.Verdict.model_validate(answer)

    def result(self, rollout_id: str) -> models.Result:
        """The record to store as ``result.json``."""
        return models.Result.model_validate(self._ask("GET", f"{_at(rollout_id)}/result"))

    def exchanges(self, rollout_id: str) -> list[models.Exchange]:
        """Every call of a rollout, oldest first."""
        found: list[models.Exchange] = []
        after: str | None = ""
        while after is not None:
            asked = {"after": after} if after else {}
            answer = self._ask("GET", f"{_at(rollout_id)}/exchanges", params=asked)
            page = models.ExchangePage.model_validate(answer)
            found += page.items
            after = page.next
        return found

    def _ask(self, method: str, path: str, **request: Any) -> Any:
        try:
            response = self._http.request(method, path, **request)
        except httpx.HTTPError as error:
            raise ServiceError(
                f"no truezero service answers at {self.url} ({type(error).__name__}): "
                "start one with `truezero serve`, or set TRUEZERO_URL"
            ) from error
        if response.is_error:
            raise _refused(response, self.url)
        try:
            return response.json()
        except ValueError as error:
            raise ServiceError(f"what answers at {self.url} is no truezero service") from error


def _at(rollout_id: str) -> str:
    return f"/rollouts/{quote(rollout_id, safe='')}"


def _refused(response: httpx.Response, url: str) -> ServiceError:
    try:
        problem = models.Problem.model_validate(response.json())
    except ValueError:
        return ServiceError(
            f"what answers at {url} is no truezero service (HTTP {response.status_code})",
            status=response.status_code,
        )
    return ServiceError(problem.detail, status=problem.status, code=problem.code)
