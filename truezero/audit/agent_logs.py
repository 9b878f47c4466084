"""An agent's own output: if it began, what ended it, and what it used.

A harness keeps it as the text of a terminal or of a program. What a tool printed stands in it as
well, so that only the ending counts, and only in words that a shell, a loader, a command line's
parser or a model's client has.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from truezero.audit.answers import content, tokens_of
from truezero.audit.errors import client_error, failed_call
from truezero.audit.runs import RecordedError
from truezero.audit.values import Json, items, mapping, text, total
from truezero.foreign import open_file, parse

_WHOLE: Final = 4_000_000  # bytes of a log that are read whole
_ENDS: Final = 1_000_000  # bytes at either end of a longer one
CUT: Final = "\n[the middle of a long log]\n"

# Why an agent never began, in words of ours: no text of a run gets into a verdict.
NOT_INSTALLED: Final = "its installation was not completed"
NOT_FOUND: Final = "its program could not be started"
NOT_LOADED: Final = "its program could not be loaded"
REFUSED: Final = "its command line was refused"
NO_SANDBOX: Final = "its sandbox failed"
NOT_RUN: Final = "the harness failed, and noted no start of it"


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentLog:
    """The facts in an agent's output; None is what it does not say.

    ``never_began``: why. ``output``: whether its model is known to have answered. ``error``: of a
    model's client, if that is what ended it. ``said``: the line that shows why it never began.
    """

    never_began: str | None = None
    output: bool | None = None
    tokens: int | None = None
    error: RecordedError | None = None
    said: str | None = None


def read_log(file: Path) -> str:
    """Return a log's text, of a long one its beginning and its end; empty if there is none."""
    try:
        with open_file(file, links=False) as log:
            size = os.fstat(log.fileno()).st_size
            if size <= _WHOLE:
                return log.read().decode(errors="replace")
            head = log.read(_ENDS)
            log.seek(size - _ENDS)
            return (head + CUT.encode() + log.read()).decode(errors="replace")
    except OSError:
        return ""


def agent_log(text: str) -> AgentLog:
    """Read what an agent's program printed from its start to its end."""
    text = plain(text)
    events = list(_events(text))
    spoke, tokens, error = _of_events(events)
    if not (spoke or tokens):
        began = never_began(text)
        if began is not None:
            return AgentLog(never_began=began, said=list(_lines(text))[-1])
    return AgentLog(
        output=True if spoke or tokens else None,
        tokens=tokens,
        error=error or (None if events else _last_error(text)),
    )


# --- the lines of a terminal ---

_ESCAPES: Final = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[=>M])")
_WIDE: Final = 1_000  # characters of a line that are looked at
_FRAME: Final = " \t|│╭╮╰╯─━┏┓┗┛┃"  # of boxes that are drawn around messages
_NOISE: Final = re.compile(
    r"asciinema: |exit$|(?:\(\S+\) )?[^\s@:]+@[^\s:]+:\S*[#$]\s*$|[$#>]\s*$|"
    r"\S*:\d+: \w*Warning: |(?:warning|note|hint|info)\b:? ",
    re.IGNORECASE,
)
_WARNING: Final = re.compile(r":\d+: \w*Warning: ")


def plain(text: str) -> str:
    """Return a terminal's text without its escapes, redrawn lines as they were last."""
    text = text.replace(" \r\x1b", "\x1b")  # a shell that wraps what is typed
    lines = _ESCAPES.sub("", text).split("\n") if "\x1b" in text else text.split("\n")
    return "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in lines)


def _lines(text: str) -> Iterator[str]:
    """Yield the lines that say something: no prompts, frames, warnings or their source."""
    warned = False
    for line in text.split("\n"):
        bare = line.strip(_FRAME)[:_WIDE]
        source = warned and line[:1] in " \t"
        warned = bool(_WARNING.search(line[:_WIDE]))
        if bare and not source and not _NOISE.match(bare):
            yield bare


# --- the agent never began ---

_PROGRAM: Final = r"[^\s:]+(?: [^\s:]+){0,2}"
_SHELL: Final = re.compile(
    rf"(?:-?\S*sh|\S*/\S+|env|exec|sudo|nohup|timeout)(?:\[\d+\])?: "
    rf"(?:(?:line )?\d+: )?(?:exec: )?['‘`]?{_PROGRAM}['’]?: "
    r"(?:command not found|not found|no such file or directory|"
    r"permission denied|cannot execute\b.*|exec format error|bad interpreter\b.*|is a directory)$|"
    r"(?:failed to run command|cannot run command) .*: no such file or directory$|"
    r"\S*sh: command not found: \S+$|\S*sh: \S+: bad interpreter\b.*|"
    r".* is not recognized as an internal or external command\b.*",
    re.IGNORECASE,
)
_SANDBOX: Final = re.compile(
    r"OCI runtime \w+ failed\b.*|error response from daemon: .*|"
    r"(?:error: )?(?:no such container|container \S+ is not running)\b.*",
    re.IGNORECASE,
)
_REFUSAL: Final = re.compile(
    r"(?:.*\berror: )?(?:no such (?:option|command)\b|unrecogni[sz]ed (?:arguments?|option)|"
    r"(?:unknown|unexpected|invalid) (?:option|flag|argument|command|subcommand|shorthand flag)\b|"
    r"missing (?:option|argument|command|required argument)\b|"
    r"got unexpected extra arguments?\b|"
    r"the following (?:required )?arguments (?:are required|were not provided)|"
    r"(?:option|argument) \S+ (?:requires|expected) |"
    r"argument \S+: (?:invalid|expected)|required option .* not specified)",
    re.IGNORECASE,
)
_USAGE: Final = re.compile(
    r"usage: |try '.*--help|for (?:more information|help), (?:try|run) ", re.I
)
_HELP: Final = 60  # lines that a program prints of its options with a refusal
_TRACE: Final = re.compile(r"traceback \(most recent call last\)", re.IGNORECASE)
_UNLOADED: Final = re.compile(
    r"(?:ModuleNotFoundError|ImportError|SyntaxError|IndentationError|"
    r"\S*PackageNotFoundError|\S*DistributionNotFound)\b|"
    r"Error(?: \[ERR_MODULE_NOT_FOUND\])?: Cannot find (?:module|package) |"
    r"Error: Could not find or load main class |.*error while loading shared libraries: |"
    r".*version [`'‘]?GLIBC\w*_[\d.]+['’]? not found"
)
_NODE: Final = re.compile(r"Node\.js v\d")
# Of a traceback's innermost frame: the import system, and what reads a command line.
_BEFORE_MAIN: Final = re.compile(
    r"[/\\](?:typer|click|argparse|docopt|fire|importlib|runpy)\b|<frozen "
)
_AT: Final = re.compile(r'(?:File "(?P<file>[^"]+)", line \d+|^(?P<rich>\S+):\d+(?: in\b|$))', re.M)
_BANNER: Final = 4  # lines that a program prints before it has loaded what it needs


def never_began(text: str) -> str | None:
    """Return why a program that printed this, and nothing else, never began; None if it may have.

    Arguments:
        text: its whole output, without escapes.
    """
    lines = list(_lines(text))
    if not lines:
        return None
    if all(map(_SHELL.match, lines)):
        return NOT_FOUND
    if all(map(_SANDBOX.match, lines)):
        return NO_SANDBOX
    return REFUSED if _refused(lines) else _unloaded(lines, text)


def _refused(lines: Sequence[str]) -> bool:
    """Return True if a command line's parser says what it does not accept, beside its usage."""
    if len(lines) > _HELP or not any(map(_REFUSAL.match, lines)):
        return False
    edges = (lines[0], lines[-1])
    return len(lines) == 1 or any(_USAGE.match(each) or _REFUSAL.match(each) for each in edges)


def _unloaded(lines: Sequence[str], text: str) -> str | None:
    """Return why a program ended before its own first line of work."""
    last = next((each for each in reversed(lines) if not _NODE.match(each)), "")
    traced = next((place for place, each in enumerate(lines) if _TRACE.search(each)), None)
    if traced is None:
        missing = [place for place, each in enumerate(lines) if _UNLOADED.match(each)]
        early = bool(missing) and missing[0] <= _BANNER
        return NOT_LOADED if early and (len(lines) <= _BANNER or _NODE.match(lines[-1])) else None
    if traced > _BANNER or not _only_traced(text):
        return None
    if _UNLOADED.match(last):
        return NOT_LOADED
    frames = [match["file"] or match["rich"] for match in _AT.finditer(_unframed(text))]
    return NOT_LOADED if frames and _BEFORE_MAIN.search(frames[-1]) else None


# Lines of a traceback: indented or framed ones, what joins two, and the exceptions themselves.
_OF_TRACE: Final = re.compile(
    rf"[{re.escape(_FRAME)}]|During handling of |The above exception was |Traceback |"
    r"(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|NotFound)\b"
)


def _only_traced(text: str) -> bool:
    """Return True if nothing but tracebacks follows where the first begins."""
    _, _, rest = text.partition("raceback (most recent call last)")
    lines = (line for line in rest.split("\n")[1:] if line.strip())
    return all(_OF_TRACE.match(line) or _NOISE.match(line.strip()) for line in lines)


def _unframed(text: str) -> str:
    return "\n".join(line.strip(_FRAME)[:_WIDE] for line in text.split("\n"))


# --- an agent's events, one a line or one at the end ---


def _events(text: str) -> Iterator[Json]:
    """Yield the JSON objects of lines, or the one that a text ends with."""
    found = False
    for line in text.split("\n"):
        if line.startswith("{") and line.rstrip().endswith("}"):
            record = _object(line)
            if record is not None:
                found = True
                yield record
    start = text.rfind("\n{\n")
    if not found and text.rstrip().endswith("}") and (start >= 0 or text.startswith("{\n")):
        record = _object(text[start + 1 :] if start >= 0 else text)
        if record is not None:
            yield record


def _object(line: str) -> Json | None:
    try:
        record = parse(line)
    except ValueError:
        return None
    return record if isinstance(record, dict) else None


def _of_events(events: Sequence[Json]) -> tuple[bool, int | None, RecordedError | None]:
    """Return whether a model answered, its tokens, and the error that ended the events.

    Claude Code (`stream-json`) and Codex (`exec --json`); other agents by a `usage` block.
    """
    used = [(str(each.get("type")), tokens_of(each.get("usage"))) for each in events]
    ends = [tokens for kind, tokens in used if kind == "result"]  # the sum of what came before
    tokens = ends[-1] if ends else total(tokens for _, tokens in used)
    spoke = any(map(_spoke, events))
    errors = [(place, error) for place, each in enumerate(events) if (error := _error(each))]
    if not errors or any(map(_spoke, events[errors[-1][0] + 1 :])):
        return spoke, tokens, None
    return spoke, tokens, errors[-1][1]


def _spoke(event: Mapping[str, object]) -> bool:
    if event.get("type") == "assistant":  # Claude Code writes its own errors as such a message
        message = mapping(event.get("message"))
        parts = content(message.get("content"))
        return message.get("model") != "<synthetic>" and any(parts)
    if event.get("type") == "item.completed":
        item = mapping(event.get("item"))
        return item.get("type") != "error"
    return False


def _error(event: Mapping[str, object]) -> RecordedError | None:
    kind = event.get("type")
    said: str | None = None
    if kind == "result" and event.get("is_error"):
        said = text(event.get("result")) or "; ".join(map(str, items(event.get("errors"))))
    elif kind in ("error", "turn.failed"):
        error = event.get("error")
        said = text(mapping(error).get("message")) or text(error) or text(event.get("message"))
    return RecordedError(text=said) if said else None


# --- the end of a text ---

_LAST: Final = 3  # records at the end among which an error ended a run
_STAMP: Final = re.compile(r"\W{0,3}(?:\d{4}-\d\d-\d\d[ T,])?\d\d:\d\d(?::\d\d)?\b")
_PREFIX: Final = re.compile(
    r"^\W*(?:\d{4}-\d\d-\d\d[ T,]?)?(?:\d\d:\d\d(?::\d\d)?(?:[.,]\d+)?Z?)?\W*"
    r"(?:[\w.]+:)?(?:error|critical|fatal|warning)?\b[:\]\s-]*(?:[\w./]+\.py:\d+ - )?",
    re.IGNORECASE,
)
_CLIENT_SAYS: Final = re.compile(
    r"(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Timeout|Exhausted)\b[:(]|api error\b|"
    r"stream error\b|(?:exceeded retry limit, )?(?:last|unexpected) status\b|error code: \d{3}\b",
    re.IGNORECASE,
)


def _last_error(text: str) -> RecordedError | None:
    """Return the error of a model's client that a text ends with."""
    records = _records(text)
    for record in reversed(records[-_LAST:]):
        said = _PREFIX.sub("", record, count=1)
        if len(records) > _LAST and not _CLIENT_SAYS.match(said):
            continue  # in a longer text it may be a tool's
        error = RecordedError(text=said[:2_000], type=client_error(None, said[:200]))
        if failed_call(error, of_call=False) is not None:
            return error
    return None


def _records(text: str) -> list[str]:
    """Return a log's records: by their stamps, if it has any, otherwise its lines."""
    lines = [each.strip(_FRAME)[:_WIDE] for each in text.split("\n")]
    lines = [each for each in lines if each and not _NOISE.match(each)]
    begins = [place for place, line in enumerate(lines) if _STAMP.match(line)]
    if not begins:
        return lines
    ends = [*begins[1:], len(lines)]
    return ["\n".join(lines[start:end]) for start, end in zip(begins, ends, strict=True)]
