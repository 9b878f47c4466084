"""What users rely on is as the golden files say: REST, commands, metrics, OpenAPI and tables."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner
from prometheus_client.parser import text_string_to_metric_families

from tests import golden
from tests.golden.scenario import Scenario, service
from truezero.cli import app as command_line

_SENTENCES = ("description", "summary")


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Scenario:
    scenario = Scenario(tmp_path_factory.mktemp("golden"))
    scenario.play()
    return scenario


def test_a_guarded_service_answers_as_ever(tmp_path: Path) -> None:
    scenario = Scenario(tmp_path)
    scenario.play_guarded()
    golden.check("rest_guarded.json", scenario.player.steps)
    golden.check("rest_guarded_prose.json", scenario.player.prose)


def test_what_cannot_be_asked_is_refused_as_ever(tmp_path: Path) -> None:
    scenario = Scenario(tmp_path)
    scenario.play_refused()
    golden.check("rest_refused.json", scenario.player.steps)
    golden.check("rest_refused_prose.json", scenario.player.prose)


@pytest.mark.slow
def test_rest_answers_as_ever(played: Scenario) -> None:
    golden.check("rest.json", played.player.steps)


@pytest.mark.slow
def test_rest_says_it_in_the_same_words(played: Scenario) -> None:
    golden.check("rest_prose.json", played.player.prose)


@pytest.mark.slow
def test_metrics_keep_their_names_types_and_labels(played: Scenario) -> None:
    found = {
        family.name: {
            "type": family.type,
            "samples": {
                name: sorted(
                    {label for s in family.samples if s.name == name for label in s.labels}
                )
                for name in sorted({sample.name for sample in family.samples})
            },
        }
        for family in text_string_to_metric_families(played.metrics)
    }
    golden.check("metrics.json", dict(sorted(found.items())))


@pytest.mark.slow
def test_metrics_are_explained_in_the_same_words(played: Scenario) -> None:
    families = text_string_to_metric_families(played.metrics)
    golden.check("metrics_prose.json", {one.name: one.documentation for one in families})


# --- OpenAPI -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def openapi(tmp_path_factory: pytest.TempPathFactory) -> Any:
    database = tmp_path_factory.mktemp("openapi") / "t.db"
    with service(database, "http://127.0.0.1:1") as http:
        document = http.get("/openapi.json").json()
    document["info"]["version"] = "<version>"
    return without_examples(document)


@pytest.mark.slow
def test_openapi_has_the_same_paths_parameters_and_fields(openapi: Any) -> None:
    golden.check("openapi.json", without_prose(openapi))


def test_openapi_describes_them_in_the_same_words(openapi: Any) -> None:
    golden.check("openapi_prose.json", dict(prose(openapi, "")))


def without_examples(node: Any) -> Any:
    """The document without examples: answers of ``rest.json``, as test_openapi.py asserts."""
    if isinstance(node, dict):
        return {
            name: without_examples(inner)
            for name, inner in node.items()
            if not (name == "example" and "schema" in node)
        }
    return [without_examples(inner) for inner in node] if isinstance(node, list) else node


def without_prose(node: Any) -> Any:
    """The document without its sentences; a field that is named like one is an object, not text."""
    if isinstance(node, dict):
        return {
            name: without_prose(inner)
            for name, inner in node.items()
            if not (name in _SENTENCES and isinstance(inner, str))
        }
    return [without_prose(inner) for inner in node] if isinstance(node, list) else node


def prose(node: Any, path: str) -> Iterator[tuple[str, str]]:
    """Each sentence of the document under its path."""
    items = node.items() if isinstance(node, dict) else enumerate(node)
    for name, inner in items:
        if isinstance(inner, str) and name in _SENTENCES:
            yield f"{path}/{name}", inner
        elif isinstance(inner, dict | list):
            yield from prose(inner, f"{path}/{name}")


# --- command line --------------------------------------------------------------------------


def commands() -> Iterator[tuple[tuple[str, ...], click.Command]]:
    def walk(
        words: tuple[str, ...], command: click.Command
    ) -> Iterator[tuple[tuple[str, ...], click.Command]]:
        yield words, command
        if isinstance(command, click.Group):
            context = click.Context(command)
            for name in sorted(command.list_commands(context)):
                inner = command.get_command(context, name)
                assert inner is not None, name
                if not inner.hidden:  # those that are gone
                    yield from walk((*words, name), inner)

    yield from walk(("truezero",), command_line)


def test_every_command_takes_the_same_arguments() -> None:
    found = {
        " ".join(words): [
            parameter(each) for each in command.params if not getattr(each, "hidden", False)
        ]
        for words, command in commands()
    }
    golden.check("commands.json", found)


def parameter(each: Any) -> dict[str, Any]:
    described = each.to_info_dict()
    default = described["default"]
    return {
        "names": [*each.opts, *each.secondary_opts],
        "kind": each.param_type_name,
        "type": described["type"]["name"],
        "required": each.required,
        "repeated": each.multiple or each.nargs != 1,
        "default": None if default is None else str(default),
        "variable": each.envvar,
    }


def test_every_command_explains_itself_in_the_same_words() -> None:
    pages = []
    for words, _ in commands():
        done = CliRunner().invoke(command_line, [*words[1:], "--help"], terminal_width=100)
        assert done.exit_code == 0, done.output
        pages.append(f"$ {' '.join(words)} --help\n{done.output.strip()}\n")
    golden.check_text("help.txt", "\n".join(pages))


# --- tables --------------------------------------------------------------------------------


def test_a_fresh_database_has_the_same_tables_columns_and_indexes(tmp_path: Path) -> None:
    with (
        service(tmp_path / "t.db", "http://127.0.0.1:1"),
        closing(sqlite3.connect(tmp_path / "t.db")) as file,
    ):
        tables = [name for (name,) in file.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")]  # fmt: skip
        found = {name: table(file, name) for name in tables}
    golden.check("schema.json", found)


def table(file: sqlite3.Connection, name: str) -> dict[str, Any]:
    columns = {
        column: [kind, *("not null",) * bool(needed), *(f"default {default}",) * bool(default),
                 *(f"key {key}",) * bool(key)]
        for _, column, kind, needed, default, key, _ in file.execute(f"PRAGMA table_xinfo({name})")
    }  # fmt: skip
    indexes = {
        index: {
            "columns": [part for _, _, part in file.execute(f"PRAGMA index_info({index})")],
            "unique": bool(unique),
            "origin": origin,
            "where": _where(file, index) if partial else None,
        }
        for _, index, unique, origin, partial in file.execute(f"PRAGMA index_list({name})")
    }
    (made,) = file.execute("SELECT sql FROM sqlite_master WHERE name = ?", (name,)).fetchone()
    return {
        "columns": columns,
        "indexes": dict(sorted(indexes.items())),
        "without rowid": "WITHOUT ROWID" in made,
    }


def _where(file: sqlite3.Connection, index: str) -> str:
    (made,) = file.execute("SELECT sql FROM sqlite_master WHERE name = ?", (index,)).fetchone()
    return str(made).partition(" WHERE ")[2]
