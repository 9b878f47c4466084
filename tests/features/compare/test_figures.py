"""Figures of a comparison are those of its batches, wherever they are shown."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from tests.proxy.api.test_routes import Service
from tests.proxy.conftest import Services
from tests.proxy.web.test_figures import by_name, check_pages, check_values, counted_anew, live
from tests.proxy.web.test_one_number import file, play_five
from tests.proxy.web.test_pages import page, words

PAGE = "/ui/compare?a=b&b=b"


def compared(service: Service) -> Iterator[tuple[str, Any]]:
    yield from by_name(service.get("/compare", a="b", b="b")["a"])


def check(service: Service) -> None:
    truth = counted_anew(service)
    check_values(service, dict(by_name(truth)), [compared])
    assert check_pages(service, truth, [PAGE]) == {PAGE}


def test_each_figure_is_as_its_function_counts_it(services: Services) -> None:
    service = services(BREAKER_THRESHOLD="3")
    live(service, random.Random(2), 14)
    check(service)


def test_the_score_is_the_batchs_on_the_page_and_in_its_file(services: Services) -> None:
    service = services(BREAKER_THRESHOLD="50")
    play_five(service)
    assert "B b 0.500" in words(page(service, PAGE))
    scores = [row["score_b"] for row in file(service, PAGE)]
    known = [score for score in scores if score is not None]
    assert sum(known) / len(known) == 0.5
