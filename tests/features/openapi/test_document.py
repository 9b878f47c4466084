"""The OpenAPI document explains itself: every call, parameter and field, with real examples."""

from __future__ import annotations

import copy
import importlib.util
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from proxy.api import auth
from proxy.features.openapi.document import described
from tests.api_examples import FILE, text
from tests.reference_pages import openapi as document_of_service
from truezero import models


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    return document_of_service()


def operations(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield f"{method.upper()} {path}", operation


@pytest.mark.slow
def test_the_document_is_of_openapis_own_schema(document: dict[str, Any]) -> None:
    package = importlib.util.find_spec("openapi_spec_validator")  # found, and not imported
    assert package is not None and package.origin is not None
    schema = Path(package.origin).parent / "resources" / "schemas" / "v3.1" / "schema.json"
    assert jsonschema_rs.validator_for(json.loads(schema.read_text("utf-8"))).is_valid(document)


@pytest.mark.slow
def test_the_document_is_valid_openapi(document: dict[str, Any]) -> None:
    # Here: its import parses grammars for 1.7 s, which each of pytest's workers would pay for.
    from openapi_spec_validator import OpenAPIV31SpecValidator

    assert list(OpenAPIV31SpecValidator(document).iter_errors()) == []


def test_pages_are_not_part_of_it(document: dict[str, Any]) -> None:
    assert "/rollouts/{rollout_id}/verdict" in document["paths"]
    assert not [path for path in document["paths"] if path.startswith("/ui") or path == "/"]


def test_every_call_has_an_id_that_makes_a_good_method_name(document: dict[str, Any]) -> None:
    """Generators of clients name methods after them."""
    ids = [operation["operationId"] for _, operation in operations(document)]
    assert len({*ids}) == len(ids)
    verbs = "ask|begin|change|check|compare|delete|end|export|follow|generate|get|list"
    verbs += "|register|report|reset"
    assert [each for each in ids if not re.fullmatch(rf"(?:{verbs})_[a-z]+", each)] == []


def test_every_call_has_a_summary_and_a_description(document: dict[str, Any]) -> None:
    for call, operation in operations(document):
        summary, description = operation["summary"], operation["description"]
        assert summary[0].isupper() and " " in summary and not summary.endswith("."), call
        assert len(summary) < 80, call
        assert description.endswith(".") and summary not in description, call


def test_every_parameter_and_every_field_has_a_description(document: dict[str, Any]) -> None:
    fields = {
        (name, field): each.get("description")
        for name, schema in document["components"]["schemas"].items()
        for field, each in schema.get("properties", {}).items()
    }
    assert len(fields) > 150
    assert [place for place, said in fields.items() if not said] == []
    parameters = {
        (call, each["name"]): each.get("description")
        for call, operation in operations(document)
        for each in operation.get("parameters", ())
    }
    assert len(parameters) > 25
    assert [place for place, said in parameters.items() if not said] == []


def test_every_schema_says_what_it_is(document: dict[str, Any]) -> None:
    schemas = document["components"]["schemas"]
    assert [name for name, each in schemas.items() if not each.get("description")] == []


def test_every_call_has_an_example_that_its_model_accepts(document: dict[str, Any]) -> None:
    shown = 0
    for call, operation in operations(document):
        bodies = [operation["requestBody"]] if "requestBody" in operation else []
        bodies += [each for code, each in operation["responses"].items() if code[0] == "2"]
        for body in bodies:
            for media in body["content"].values():
                reference = media["schema"].get("$ref")
                if reference is None:
                    assert isinstance(media["example"], str), call
                    continue
                model = getattr(models, reference.rpartition("/")[2])
                assert model.model_validate(media["example"]), call
                shown += 1
    assert shown > 18


def test_examples_are_what_the_service_answers() -> None:
    assert FILE.read_text("utf-8") == text(), "run python -m tests.test_docs"


def test_every_tag_is_described_and_used(document: dict[str, Any]) -> None:
    used = {tag for _, operation in operations(document) for tag in operation["tags"]}
    assert used == {each["name"] for each in document["tags"]}


def test_a_handlers_own_words_come_before_those_of_the_name() -> None:
    given: dict[str, Any] = {
        "tags": [{"name": "service"}],
        "components": {"schemas": {"ValidationError": {}, "Batch": {}}},
        "paths": {
            "/healthz": {
                "get": {
                    "tags": ["service"],
                    "description": "Say\nso.\n\nAt length.",
                    "parameters": [
                        {"name": "task", "description": "its own"},
                        {"name": "limit"},
                        {"name": "x"},
                    ],
                    "responses": {"200": {"content": {"application/json": {}}}, "503": {}},
                }
            }
        },
    }  # fmt: skip
    kept = copy.deepcopy(given)
    found = described(given)
    assert given == kept
    operation = found["paths"]["/healthz"]["get"]
    assert (operation["summary"], operation["description"]) == ("Say so", "At length.")
    said = [each.get("description") for each in operation["parameters"]]
    assert said == ["its own", "maximum number of items", None]
    assert operation["responses"]["200"]["content"]["application/json"]["example"]["status"] == "ok"
    assert operation["responses"]["503"] == {}
    assert list(found["components"]["schemas"]) == ["Batch"]


def test_what_the_token_opens_is_what_the_service_guards(document: dict[str, Any]) -> None:
    assert document["components"]["securitySchemes"]["adminToken"]["scheme"] == "bearer"
    assert {"adminToken": []} in document["security"]
    unguarded = {call for call, each in operations(document) if each.get("security") == []}
    assert unguarded == {f"GET {path}" for path in auth._OPEN}  # noqa: SLF001  the paths that need no token
