"""The reference pages of docs/reference/ as generated from the code they describe.

``python -m tests.test_docs`` writes them; ``tests/test_docs.py`` compares them.
"""

from __future__ import annotations

import inspect
import json
import re
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import click
import yaml
from prometheus_client.parser import text_string_to_metric_families

import truezero
from classifier.figures import FIGURES, Figure
from proxy.app import Application
from proxy.routing import errors
from proxy.routing.upstreams import BUILT_IN, LOCAL
from proxy.settings import PREFIX, Settings, load
from proxy.store.database import Database
from proxy.web.format import anchor_of
from truezero.audit.audit_format import AuditFormat
from truezero.audit.formats import FORMATS
from truezero.cli import app as command_line
from truezero.one_answer import CauseOfFailure

ROOT: Final = Path(__file__).parents[1]
METHODS: Final = ("get", "post")
TAGS: Final = ("rollouts", "batches", "keys", "service")


# --- settings and upstreams ----------------------------------------------------------------


def settings() -> str:
    rows = [
        (
            f"`{PREFIX}{name.upper()}`",
            f"`{name}`",
            "–" if default is None or default == {} else f"`{_plain(default)}`",
            field.description or "",
        )
        for name, field in Settings.model_fields.items()
        if name not in ("upstreams", "keys", "causes")
        for default in (field.get_default(call_default_factory=True),)
    ]
    return table(("variable", "key", "default", "description"), rows)


def upstreams() -> str:
    rows = [
        (
            f"`{upstream.name}`",
            f"`{upstream.url}`" if upstream.url else "set `TRUEZERO_UPSTREAM_AZURE`",
            "requested" if upstream.include_usage else "",
            "loopback without a token only" if upstream.name in LOCAL else "",
        )
        for upstream in BUILT_IN.values()
    ]
    return table(("name", "origin", "usage of streams", "available"), rows)


def _plain(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value)


# --- commands ------------------------------------------------------------------------------


def commands() -> Iterator[tuple[str, Any]]:
    """Yield each command as it is typed, and its object."""
    yield from _commands("truezero", command_line)


def _commands(typed: str, command: click.Command) -> Iterator[tuple[str, click.Command]]:
    if not isinstance(command, click.Group) or command.invoke_without_command:
        yield typed, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None, name
            if not inner.hidden:
                yield from _commands(f"{typed} {name}", inner)


def command_overview() -> str:
    rows = [
        (f"[`{typed}`](#{typed.replace(' ', '-')})", _first_line(command.help))
        for typed, command in commands()
    ]
    return table(("command", "description"), rows)


def command_pages() -> str:
    return "\n\n".join(_command_page(typed, command) for typed, command in commands())


def _command_page(typed: str, command: Any) -> str:
    named = [each for each in command.params if each.param_type_name == "argument"]
    options = [each for each in command.params if each.param_type_name == "option"]
    flags = [each for each in options if not each.hidden]
    places = " ".join(each.metavar or each.name.upper() for each in named)
    used = " ".join(filter(None, (typed, "[options]" if flags else "", places)))
    rows = [(f"`{'`, `'.join(each.opts)}`", _flag(each)) for each in flags]
    text = re.sub(r"\b(TRUEZERO_<NAME>)", r"`\1`", inspect.cleandoc(command.help))
    return f"## `{typed}`\n\n```text\n{used}\n```\n\n{text}\n\n{table(('option', ''), rows)}"


def _flag(flag: Any) -> str:
    said = re.sub(r"\s+\[default: ([^\]]+)\]", r" Default: \1.", flag.help)
    if flag.envvar:
        said += f" Variable: `{flag.envvar}`."
    default = flag.to_info_dict()["default"]
    plain = default not in (None, False, ()) and "Default" not in said
    return f"{said} Default: {_plain(default)}." if plain else said


def _first_line(text: str) -> str:
    return text.partition("\n")[0].rstrip(".")


# --- Python --------------------------------------------------------------------------------

_CLASSES: Final = (truezero.Client, truezero.Batch, truezero.Rollout, truezero.ExecutionLoop)
_NOT_FOR_USERS: Final = frozenset({"play"})


def python_classes() -> str:
    return "\n\n".join(f"### {each.__name__}\n\n{_members(each)}" for each in _CLASSES)


def _members(cls: type) -> str:
    named = {name: each for name, each in inspect.getmembers(cls) if not name.startswith("_")}
    rows = [
        (f"`{name}{_taken(each)}`", f"`{_returned(each)}`", _first_paragraph(each))
        for name, each in named.items()
        if name not in _NOT_FOR_USERS
    ]
    return table(("", "returns", "description"), rows)


def _taken(member: Any) -> str:
    """Write the parameters as they are typed, without types; nothing of a property."""
    if isinstance(member, property):
        return ""
    taken = [
        each.replace(annotation=inspect.Parameter.empty)
        for each in inspect.signature(member).parameters.values()
        if each.name != "self"
    ]
    return str(inspect.Signature(taken)).replace("<class 'str'>", "str")


def _returned(member: Any) -> str:
    function: Any = member.fget if isinstance(member, property) else member
    said = str(inspect.signature(function).return_annotation).replace("models.", "")
    return re.sub(r"^Story\[(.*)\]$", r"\1", said).replace(" | ", " or ")


def _first_paragraph(member: Any) -> str:
    text = (inspect.getdoc(member) or "").partition("\n\n")[0]
    return text.replace("``", "`").rstrip(".")


def cause_fields() -> str:
    """The fields of what `cause_of` returns, as its docstring has them."""
    attributes = (inspect.getdoc(CauseOfFailure) or "").partition("Attributes:\n")[2]
    rows = re.findall(r"^    (\w+): (.+?)\.$(?=\n    \w|\Z)", attributes, re.MULTILINE | re.DOTALL)
    return table(("field", "says"), ((f"`{name}`", said.replace("``", "`")) for name, said in rows))


def action_outputs(action: str) -> str:
    outputs = yaml.safe_load(action)["outputs"]
    return table(
        ("output", ""), ((f"`{name}`", each["description"]) for name, each in outputs.items())
    )


# --- REST ----------------------------------------------------------------------------------


def openapi() -> dict[str, Any]:
    """Return the service's own description of its REST API."""
    from proxy.features.openapi.document import document_of  # here: other pages do without it

    with tempfile.TemporaryDirectory() as folder:
        database = f"{folder}/t.db"
        Database(database).prepare()
        service = Application(load({"database_url": database}, {}), {})
        return document_of(service.control_plane().app)


def operations(document: Mapping[str, Any]) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """Yield tag, `METHOD /path` and operation of each call, by tag."""
    calls = [
        (operation["tags"][0], f"{method.upper()} {path}", operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]
    yield from sorted(calls, key=lambda call: TAGS.index(call[0]))


def rest_overview(document: Mapping[str, Any]) -> str:
    rows = [
        (f"[`{call}`](#{anchor_of(call)})", operation["summary"])
        for _, call, operation in operations(document)
    ]
    return table(("call", "description"), rows)


def rest_calls(document: Mapping[str, Any]) -> str:
    return "\n\n".join(_call(call, operation) for _, call, operation in operations(document))


def rest_models(document: Mapping[str, Any]) -> str:
    schemas = document["components"]["schemas"]
    shown = sorted(name for name, schema in schemas.items() if "properties" in schema)
    return "\n\n".join(_model(name, schemas[name]) for name in shown)


def _call(call: str, operation: Mapping[str, Any]) -> str:
    parts = [f"### `{call}`", f"{operation['summary']}.", operation["description"]]
    asked = operation.get("parameters", ())
    rows = [(f"`{each['name']}`", each["in"], _type(each["schema"]), _said(each)) for each in asked]
    if rows:
        parts.append(table(("parameter", "in", "type", "description"), rows))
    body = operation.get("requestBody")
    if body is not None:
        media = body["content"]["application/json"]
        parts.append(f"Body: {_type(media['schema'])}.")
        parts.append(_example(media.get("example")))
    parts.append(_answers(operation["responses"]))
    return "\n\n".join(filter(None, parts))


def _answers(responses: Mapping[str, Any]) -> str:
    told = []
    for status, response in responses.items():
        for kind, media in response.get("content", {}).items():
            if status.startswith("2"):
                schema = media.get("schema", {})
                what = _type(schema) if "$ref" in schema else f"`{kind}`"
                told.append(f"Answer {status}: {what}.")
                if "example" in media and kind == "application/json":
                    told.append(_example(media["example"]))
    return "\n\n".join(filter(None, told))


# Fields of a verdict and a result that their tables begin with: does it count, why, whose, what
# next; then what that stands on.
_FIRST = (
    "scoreable", "sentence", "attributed_to", "retry", "health", "rule", "proof", "corroborated",
    "validity", "excluded_by",
)  # fmt: skip


def _model(name: str, schema: Mapping[str, Any]) -> str:
    fields = dict(schema["properties"])
    first = _FIRST if name in ("Verdict", "Result") else ()
    ordered = {field: fields[field] for field in first if field in fields} | fields
    rows = [(f"`{field}`", _type(each), _said(each)) for field, each in ordered.items()]
    about = schema.get("description", "").replace("\n", " ")
    return f"### {name}\n\n{about}\n\n{table(('field', 'type', 'description'), rows)}"


def _said(described: Mapping[str, Any]) -> str:
    said = described.get("description") or described.get("schema", {}).get("description", "")
    schema = described.get("schema", described)
    default = schema.get("default")
    shown = default not in (None, [], {}) and "default" not in said
    return f"{said}; default `{_plain(default)}`" if shown else said


def _type(schema: Mapping[str, Any]) -> str:
    """Write a JSON schema as words: `[Verdict](#verdict)`, `integer or null`, `list of string`."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "anyOf" in schema or "oneOf" in schema:
        kinds = [_type(each) for each in schema.get("anyOf", schema.get("oneOf", ()))]
        return " or ".join(dict.fromkeys(kinds))
    if "enum" in schema:
        return ", ".join(f"`{each}`" for each in schema["enum"])
    if "const" in schema:
        return f"`{schema['const']}`"
    return _plain_type(schema)


def _plain_type(schema: Mapping[str, Any]) -> str:
    kind = schema.get("type", "any")
    if kind == "array":
        return f"list of {_type(schema.get('items', {}))}"
    values = schema.get("additionalProperties")
    if kind == "object" and isinstance(values, Mapping):
        return f"object of {_type(values)}"
    return str(kind)


def _example(value: Any) -> str:
    if not isinstance(value, dict | list):
        return ""
    return f"```json\n{json.dumps(value, indent=2, ensure_ascii=False)}\n```"


# --- audit ---------------------------------------------------------------------------------


def audit_formats() -> str:
    rows = [
        (
            f"{each.title} (`{each.name}`)",
            *(_fact(each, word) for word in ("Path", "Read", "Unknown")),
        )
        for each in FORMATS
    ]
    return table(("format", "path", "read", "cannot be known"), rows)


def audit_copies() -> str:
    return table(
        ("format", "what the copy says"), ((each.title, _fact(each, "Copy")) for each in FORMATS)
    )


def _fact(each: AuditFormat, word: str) -> str:
    """Return a paragraph of the docstring of a format's module, without its word."""
    text = inspect.getdoc(sys.modules[each.read.__module__]) or ""
    found = re.search(rf"^{word}: (.+?)\.(?:\n\n|\Z)", text, re.DOTALL | re.MULTILINE)
    assert found is not None, f"{each.read.__module__}: {word}: …"
    return found[1]


# --- alerts --------------------------------------------------------------------------------


def alerts(rules: str) -> str:
    """The alerts of Prometheus' rules, with names in place of what their templates fill in."""
    [group] = yaml.safe_load(rules)["groups"]
    rows = []
    for each in group["rules"]:
        notes = {name: _untemplated(text) for name, text in each["annotations"].items()}
        section = notes["runbook"].rpartition("/")[2]
        said = f"{notes['summary']}. {notes['description']}"
        rows.append(
            (
                f"`{each['alert']}`",
                each["labels"]["severity"],
                each.get("for", "at once"),
                f"{said} [Runbook]({section})",
            )
        )
    return table(("alert", "severity", "after", "says"), rows)


def _untemplated(text: str) -> str:
    named = re.sub(r"{{ \$labels\.(\w+) }}", lambda label: label[1].upper(), text)
    return re.sub(r"{{.*?\$value.*?}}", "N", named)


# --- refusals ------------------------------------------------------------------------------


def refusal_codes() -> str:
    """The codes of refusals, each with the comment that stands above it."""
    source = inspect.getsource(errors).partition("RefusalCode: TypeAlias = Literal[\n")[2]
    rows = []
    for comment, codes in re.findall(
        r"((?:    # .*\n)+)((?:    \"\w+\",\n)+)", source.partition("\n]")[0] + "\n"
    ):
        why, _, do = re.sub(r"\s*# ", " ", comment).partition(" → ")
        rows.append((", ".join(f"`{code}`" for code in re.findall(r"\w+", codes)), why, do))
    return table(("`x-truezero-refusal`", "why", "do"), rows)


# --- figures -------------------------------------------------------------------------------


def metrics(exposition: str) -> str:
    """The metrics that Prometheus was told, without those of the process."""
    rows = []
    for family in text_string_to_metric_families(exposition):
        labels = {name for sample in family.samples for name in sample.labels} - {"le"}
        if family.name.startswith("truezero_"):
            name = f"{family.name}_total" if family.type == "counter" else family.name
            kind = "histogram: " if family.type == "histogram" else ""
            rows.append((f"`{name}`", " ".join(sorted(labels)), kind + family.documentation))
    return table(("metric", "labels", "description"), rows)


def figure_terms() -> str:
    """The figures that have a word in the glossary; those of one word in one row."""
    rows: dict[str, list[Figure]] = {}
    for figure in FIGURES.values():
        if figure.term is not None:
            rows.setdefault(figure.term, []).append(figure)
    return table(
        ("term", "meaning", "REST"),
        (
            (
                term,
                "; ".join(each.definition for each in figures),
                ", ".join(f"`{each.name}`" for each in figures),
            )
            for term, figures in sorted(rows.items())
        ),
    )


def figure_lists() -> str:
    """The figures that have a list of rollouts, and its query."""
    rows = [
        (f"`{figure.name}`", figure.unit.value, f"`{_query(figure)}`")
        for figure in FIGURES.values()
        if figure.listed is not None
    ]
    return table(("figure", "unit", "list"), rows)


def _query(figure: Figure) -> str:
    return "&".join(f"{name}={value}" for name, value in figure.listed or ()) or "all"


# --- pages ---------------------------------------------------------------------------------


def generated() -> dict[str, str]:
    """Return each generated part: `file#marker` → its Markdown."""
    document = openapi()
    return {
        "docs/reference/settings.md#settings": settings(),
        "docs/reference/upstreams.md#upstreams": upstreams(),
        "docs/troubleshooting.md#codes": refusal_codes(),
        "docs/guides/audit.md#formats": audit_formats(),
        "docs/guides/audit.md#copies": audit_copies(),
        "docs/operations/observability.md#alerts": alerts(
            (ROOT / "deploy/prometheus/rules.yml").read_text("utf-8")
        ),
        "docs/guides/judge-by-itself.md#fields": cause_fields(),
        "docs/guides/ci.md#outputs": action_outputs(
            (ROOT / "deploy/action.yml").read_text("utf-8")
        ),
        "docs/reference/cli.md#overview": command_overview(),
        "docs/reference/cli.md#commands": command_pages(),
        "docs/concepts/glossary.md#figures": figure_terms(),
        "docs/reference/lists.md#figures": figure_lists(),
        "docs/reference/sdk.md#classes": python_classes(),
        "docs/reference/rest.md#overview": rest_overview(document),
        "docs/reference/rest.md#calls": rest_calls(document),
        "docs/reference/rest.md#models": rest_models(document),
    }


def part(text: str, marker: str) -> str:
    """Return what stands between a page's two markers."""
    found = re.search(_between(marker), text, re.DOTALL)
    assert found is not None, f"no <!-- {marker} --> in the page"
    return found[1]


def replaced(text: str, marker: str, content: str) -> str:
    """Return the page with other content between its two markers."""
    whole = f"<!-- {marker} -->\n{content}\n<!-- /{marker} -->"
    return re.sub(_between(marker), lambda _: whole, text, flags=re.DOTALL)


def write(root: Path, parts: Mapping[str, str]) -> None:
    """Write generated parts into the pages under ``root``."""
    for place, content in parts.items():
        file, _, marker = place.partition("#")
        page = root / file
        page.write_text(replaced(page.read_text("utf-8"), marker, content), "utf-8")


def _between(marker: str) -> str:
    return f"<!-- {marker} -->\n(.*?)\n?<!-- /{marker} -->"


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    titles = list(head)
    lines = [titles, ["---"] * len(titles), *rows]
    return "\n".join("| " + " | ".join(_cell(each) for each in line) + " |" for line in lines)


def _cell(text: str) -> str:
    return re.sub(r"\s+", " ", text).replace("|", "\\|").strip()
