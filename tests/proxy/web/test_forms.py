"""Forms are read only from pages of our own origin, and only up to a size."""

from __future__ import annotations

import pytest

from tests.proxy.api.test_routes import Service
from tests.proxy.conftest import Services
from tests.proxy.web.test_pages import TOKEN

OWN = {"sec-fetch-site": "same-origin"}


@pytest.fixture
def guarded(services: Services) -> Service:
    return services(ADMIN_TOKEN=TOKEN)


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1:1", "sec-fetch-site": "none"},
    ],
)
def test_a_form_of_another_origin_is_refused(guarded: Service, headers: dict[str, str]) -> None:
    answer = guarded.http.post("/ui/sign-in", data={"token": TOKEN}, headers=headers)
    assert answer.status_code == 403
    assert "set-cookie" not in answer.headers


def test_on_plain_http_the_origin_itself_is_looked_at(guarded: Service) -> None:
    origin = str(guarded.http.base_url).rstrip("/")
    answer = guarded.http.post("/ui/sign-in", data={"token": TOKEN}, headers={"origin": origin})
    assert answer.status_code == 303


@pytest.mark.parametrize("chunked", [False, True])
def test_a_form_that_is_too_large_is_refused(guarded: Service, chunked: bool) -> None:
    fields = b"token=" + b"x" * 20_000
    content = iter([fields]) if chunked else fields
    answer = guarded.http.post("/ui/sign-in", content=content, headers=OWN)
    assert answer.status_code == 413
    assert "set-cookie" not in answer.headers


def test_of_a_field_given_twice_the_last_value_counts(guarded: Service) -> None:
    content = f"token=wrong&token={TOKEN}".encode()
    assert guarded.http.post("/ui/sign-in", content=content, headers=OWN).status_code == 303
