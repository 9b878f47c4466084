"""Commands that start an agent, spelled in every way, and those that only look so."""

from __future__ import annotations

import os
import shlex
from pathlib import Path, PurePath

import pytest

from tests.tables import each
from truezero.runner import recognition
from truezero.runner.recognition import (
    Program,
    RecognisedAgent,
    StartedAs,
    find,
    find_program,
    insert,
    launched_program,
    launcher_of,
    name_of,
)

NAMES = {"aider", "claude", "claude-code", "codex", "mini", "mini-swe-agent", "minisweagent"}


@each(
    "command, name, place",
    [
        # paths
        ("codex exec hi", "codex", 0),
        ("/usr/local/bin/claude -p hi", "claude", 0),
        ("./bin/mini -t hi", "mini", 0),
        ("bin/mini -t hi", "mini", 0),
        ("venv/bin/mini -t hi", "mini", 0),
        ("../codex exec hi", "codex", 0),
        ("node_modules/.bin/codex exec hi", "codex", 0),
        ("./codex.exe exec hi", "codex", 0),
        # packages
        ("npx codex", "codex", 1),
        ("npx -y @openai/codex@latest exec hi", "codex", 2),
        ("npx --yes @openai/codex@^0.169 exec hi", "codex", 2),
        ("npx -p @openai/codex codex exec hi", "codex", 3),
        ("npx --package=@openai/codex -- codex exec hi", "codex", 3),
        ("npm exec --yes @openai/codex -- exec hi", "codex", 3),
        ("pnpm dlx @openai/codex exec hi", "codex", 2),
        ("pnpm --dir app exec codex hi", "codex", 4),
        ("pnpx @anthropic-ai/claude-code", "claude-code", 1),
        ("yarn dlx @openai/codex hi", "codex", 2),
        ("yarn codex hi", "codex", 1),
        ("bunx @openai/codex@latest hi", "codex", 1),
        ("bun x @openai/codex hi", "codex", 2),
        ("uvx mini-swe-agent -t hi", "mini-swe-agent", 1),
        ("uvx --from mini-swe-agent==2.4.6 mini -t hi", "mini", 3),
        ("uvx --python 3.12 mini-swe-agent[full]==2.4.6 -t hi", "mini-swe-agent", 3),
        ("uv run mini -t hi", "mini", 2),
        ("uv --quiet run --with litellm mini -t hi", "mini", 5),
        ("uv run -m minisweagent -t hi", "minisweagent", 3),
        ("uv run python -m minisweagent", "minisweagent", 4),
        ("uv tool run mini-swe-agent", "mini-swe-agent", 3),
        ("pipx run --spec mini-swe-agent mini", "mini", 4),
        ("poetry run aider --message hi", "aider", 2),
        ("conda run -n env mini", "mini", 4),
        # interpreters
        ("python -m minisweagent", "minisweagent", 2),
        ("python3.12 -X utf8 -m minisweagent.run.mini -t hi", "minisweagent.run.mini", 4),
        ("venv/bin/python venv/bin/mini", "mini", 1),
        ("node ./dist/codex.js exec hi", "codex", 1),
        ("node --no-warnings node_modules/@anthropic-ai/claude-code/cli.js", "claude-code", 2),
        # around
        ("env VAR=x codex exec hi", "codex", 2),
        ("env -u OPENAI_API_KEY A=1 B=2 codex", "codex", 5),
        ("timeout 60 codex exec hi", "codex", 2),
        ("timeout -k 5 --signal=INT 1h codex exec hi", "codex", 5),
        ("nice -n 10 timeout 60 env A=1 npx -y @openai/codex hi", "codex", 9),
        ("nohup stdbuf -oL codex", "codex", 3),
    ],
)
def test_an_agent_is_known_however_it_is_spelled(command: str, name: str, place: int) -> None:
    found = find(command.split(), NAMES)
    assert found is not None
    assert (found.name, found.place) == (name.partition(".")[0], place)
    assert list(found.words) == command.split()[place + 1 :]
    told = insert(command.split(), found, ["-c", "a=b"])
    rest = command.split()[place + 1 :]
    dashes = ["--"] if command.startswith("npm ") else []
    after = rest[1:] if dashes else rest
    assert list(told) == [*command.split()[: place + 1], *dashes, "-c", "a=b", *after]


@each(
    "command",
    [
        "mycodex exec hi", "codex2 exec hi", "codex.txt", "./codex.txt", "codex-exec hi",
        "./solve codex", "cat codex.txt", "grep claude notes", "python agent.py codex",
        "python -c codex",
        "python -m pytest codex", "python -m agent.codex", "node -e codex", "node build.js codex",
        "node node_modules/codex-tools/codex-test.js", "env codex=1 ./solve", "env -S codex",
        "timeout codex ./solve", "timeout 60", "npx", "npx cowsay codex", "npx -c codex",
        "npm run codex", "npm install codex", "pnpm install codex", "uvx --from codex black",
        "uv add codex", "uv pip install mini-swe-agent", "uv run --with codex pytest",
        "sudo codex", "xargs codex", "ssh host codex", "docker run codex", "sh", "sh -c",
        "bash script codex", "-codex", "nice nice nice nice nice nice nice nice nice codex", "",
    ],
)  # fmt: skip
def test_what_only_looks_like_an_agent_is_none(command: str) -> None:
    assert find(command.split(), NAMES) is None


@each(
    "text, told",
    [
        ("codex exec 'do it'", "codex +x exec 'do it'"),
        ("exec codex exec hi", "exec codex +x exec hi"),
        ("cd repo && codex exec hi > log 2>&1", "cd repo && codex +x exec hi > log 2>&1"),
        ("echo hi | timeout 60 npx codex exec -", "echo hi | timeout 60 npx codex +x exec -"),
        ("A=1 node_modules/.bin/codex $X", "A=1 node_modules/.bin/codex +x $X"),
        ('"codex" exec "say \\"$1\\"; codex"', '"codex" +x exec "say \\"$1\\"; codex"'),
        ("codex a && codex b", "codex +x a && codex +x b"),
        ("git pull\ncodex a # codex b", "git pull\ncodex +x a # codex b"),
        # not plain
        ("codex a; claude b", None),
        ("if true; then codex a; fi", None),
        ("while :; do codex a; done", None),
        ("(codex a)", None),
        ("X=$(codex a)", None),
        ('echo "$(codex a)"', None),
        ("echo `codex a`", None),
        ("codex <<EOF\nhi\nEOF", None),
        ("codex 'open", None),
        ("$AGENT exec hi", None),
        ("eval codex", None),
        ("echo codex", None),
        ("cat codex.txt; ./mycodex", None),
        ("npm exec codex -- hi", None),
        ("", None),
    ],
)
@pytest.mark.parametrize("shell", ["sh -c", "bash -lc", "timeout 9 /bin/sh -e -c", "zsh +x -ec"])
def test_the_text_of_a_shell_is_read_where_it_is_plain(
    shell: str, text: str, told: str | None
) -> None:
    command = [*shell.split(), text, "sh", "more"]
    found = find(command, NAMES)
    assert (found and found.name) == (told and "codex")
    if found:
        assert insert(command, found, ["+x"]) == (*shell.split(), told, "sh", "more")


def test_words_put_into_a_shells_text_are_quoted() -> None:
    command = ["sh", "-c", "codex hi"]
    words = ["-c", 'url="http://x"', "it's; $A"]
    text = insert(command, find(command, NAMES), words)[2]
    assert shlex.split(text) == ["codex", *words, "hi"]


@each(
    "command, assigned, cleared",
    [
        ("env A=1 B=2 codex C=3", {"A": "1", "B": "2"}, False),
        ("env -i A=1 codex", {"A": "1"}, True),
        ("env - codex", {}, True),
        ("codex A=1", {}, False),
        ("sh -c 'export A=1; B=$X codex'", {"A": "1", "B": "$X"}, False),
        ("sh -c 'env -i codex'", {}, True),
        ("env A=1 sh -c codex", {"A": "1"}, False),
    ],
)
def test_what_a_command_sets_for_its_agent_is_known(
    command: str, assigned: dict[str, str], cleared: bool
) -> None:
    found = find(shlex.split(command), NAMES)
    assert found is not None
    assert (found.assigned, found.cleared) == (assigned, cleared)


# --- wrappers ------------------------------------------------------------------------------


def behind(script: str, command: str = "./solve hi") -> RecognisedAgent | None:
    program = Program(path=PurePath("/w/solve"), text=script)
    return find(command.split(), NAMES, lambda _word: program)


PNPM = """#!/bin/sh
basedir=$(dirname "$(echo "$0" | sed -e 's,x,/,g')")
case `uname` in
    *CYGWIN*) basedir=`cygpath -w "$basedir"`;;
esac
if [ -x "$basedir/node" ]; then
  exec "$basedir/node"  "$basedir/../@openai/codex/bin/codex.js" "$@"
else
  exec node  "$basedir/../@openai/codex/bin/codex.js" "$@"
fi
"""


@each(
    "script, passes",
    [
        ('#!/bin/sh\nexec codex exec "$@"\n', True),
        ('#!/usr/bin/env bash\nset -eu\n. ./.env\nexec npx -y @openai/codex \\\n  "$@"\n', True),
        ('#!/bin/sh\ncd "$1"\ncodex exec --json "fix it"\n', False),
        ('#!/bin/sh\n# ours\nif test -t 0; then\n  exec codex "$@"\nfi\nexec codex $*\n', True),
        ('#!/bin/sh\nexec 2>log\nexec codex "$@"\n', True),
        ('#!/bin/sh\nexec codex "$@" | tee log\ncodex login\n', None),
        (PNPM, True),
        ('#!/usr/bin/env node\nimport "../lib/codex.js";\n', True),
        ("#!/usr/bin/env -S node --no-warnings\nrequire('@openai/codex/bin/codex.js')\n", True),
        # others
        ('#!/bin/sh\nexec claude "$@" || exec codex "$@"\n', None),
        ('#!/bin/sh\nexec ./solve "$@"\ncodex\n', None),
        ('#!/bin/sh\nexec "$AGENT" "$@"\n', None),
        ("#!/bin/sh\ncat <<EOF\ncodex exec hi\nEOF\n", None),
        ("#!/bin/sh\necho codex; grep codex log\n", None),
        ("#!/usr/bin/env node\nrequire('./codex.js'); require('./claude.js')\n", None),
        ("#!/usr/bin/env node\nrequire('./codex.js')\n" + "work();\n" * 300, None),
        ("#!/usr/bin/env python3\nimport codex\n", None),
        ("codex exec hi\n", None),
        ("", None),
    ],
)  # fmt: skip
def test_a_wrapper_script_is_followed_once(script: str, passes: bool | None) -> None:
    found = behind(script)
    assert (found and found.passes) == passes
    if found:
        assert (found.name, found.place) == ("codex", 0)
        told = insert(["./solve", "hi"], found, ["+x"])
        assert told == (("./solve", "+x", "hi") if passes else ("./solve", "hi"))


@each(
    "command, place",
    [
        ("timeout 9 ./solve hi", 2),
        ("env A=1 ./solve hi", 2),
        ("sh ./solve hi", 1),
        ("npx ./solve hi", None),
        ("python -m solve", None),
        ("sh -c ./solve", None),
    ],
)
def test_a_wrapper_is_looked_for_where_a_program_is_named(command: str, place: int | None) -> None:
    found = behind(
        'exec codex "$@"' if "sh ./" in command else '#!/bin/sh\nexec codex "$@"', command
    )
    assert (found and found.place) == place


def test_what_a_wrapper_says_and_sets_is_known() -> None:
    found = behind(
        '#!/bin/sh\nexport A=1\nB=2\nexec env C=3 codex --oss "$@"', "env D=4 ./solve hi"
    )
    assert found is not None
    assert found.words == ("--oss", "$@", "hi")
    assert found.assigned == {"A": "1", "B": "2", "C": "3", "D": "4"}


# --- files ---------------------------------------------------------------------------------


def test_a_link_to_an_agent_is_that_agent(tmp_path: Path) -> None:
    file = tmp_path / "node_modules" / "@openai" / "codex" / "bin" / "codex.js"
    file.parent.mkdir(parents=True)
    file.write_text("#!/usr/bin/env node\n")
    link = tmp_path / "solve"
    link.symlink_to(file)
    found = find([str(link), "hi"], NAMES, lambda word: find_program(word, None))
    assert found is not None
    assert found.name == "codex"


def test_a_program_is_searched_as_a_shell_does(tmp_path: Path) -> None:
    script = tmp_path / "solve"
    script.write_text("#!/bin/sh\n" + "#" * 20_000)
    assert find_program("solve", str(tmp_path)) is None, "it cannot be executed"
    script.chmod(0o755)
    seen = find_program("solve", str(tmp_path))
    assert seen is not None
    assert seen.path == script.resolve()
    assert len(seen.text or "") == 16_384
    assert find_program("solve", "/nowhere") is None


def test_what_cannot_be_read_is_left_alone(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "circle").symlink_to(tmp_path / "circle")
    (tmp_path / "binary").write_bytes(b"#!/bin/sh\n\0exec codex")
    for name in ("pipe", "circle", ".", "gone", "x\0y"):
        assert find_program(f"{tmp_path}/{name}", None) is None, name
    binary = find_program(f"{tmp_path}/binary", None)
    assert binary is not None
    assert binary.text is None


# --- Names of programs and packages, and where a launcher names what it starts --------------------


@pytest.mark.parametrize(
    ("word", "name"),
    [
        ("codex", "codex"),
        ("/usr/bin/codex", "codex"),
        ("@openai/codex", "codex"),
        ("@openai/codex@0.169.0", "codex"),
        ("codex@latest", "codex"),
        ("bin/codex.js", "codex"),
        ("codex.cmd", "codex"),
        ("mini-swe-agent[full]>=2,<3", "mini-swe-agent"),
        ("a/node_modules/@openai/codex/dist/cli.mjs", "codex"),
        ("a/node_modules/@openai/codex/node_modules/left/pad.js", "left"),
        ("a/node_modules/.bin/codex", "codex"),
        ("a/node_modules/codex/README", "README"),
        ("codex.txt", "codex.txt"),
        ("codex hi", ""),
        ("", ""),
    ],
)
def test_a_program_is_named_without_where_it_lies(word: str, name: str) -> None:
    assert name_of(word) == name


@each(
    "words, found",
    [
        ("env -u A B=1 x", (4, StartedAs.PROGRAM)),
        ("timeout 5 x", (2, StartedAs.PROGRAM)),
        ("timeout 5", None),
        ("python3.11 -m x.y", (2, StartedAs.MODULE)),
        ("python -m", None),
        ("pypy3 x", (1, StartedAs.PROGRAM)),
        ("sh -ec x", (2, StartedAs.TEXT)),
        ("sh -s x", None),
        ("uv tool run x", (3, StartedAs.PROGRAM)),
        ("uv sync x", None),
        ("npx -- x", (2, StartedAs.PROGRAM)),
        ("npx --call=x", None),
    ],
)
def test_what_a_launcher_starts_is_found(words: str, found: tuple[int, StartedAs] | None) -> None:
    launcher = launcher_of(words.partition(" ")[0])
    assert launcher is not None
    assigned: dict[str, str] = {}
    assert launched_program(launcher, words.split(), 1, assigned) == found
    assert assigned == ({"B": "1"} if words.startswith("env") else {})


def test_a_program_that_starts_no_other_is_no_launcher() -> None:
    assert launcher_of("grep") is None


# --- Simple commands are split as a shell would; whatever is not plain is left alone --------------


@each(
    "text, words",
    [
        ("a b  c", [["a", "b", "c"]]),
        ("a 'b c' d\\ e \"f $g\"", [["a", "b c", "d e", "f $g"]]),
        ("a && b || c; d | e & f\ng", [["a"], ["b"], ["c"], ["d"], ["e"], ["f"], ["g"]]),
        ("a >b 2>&1 <c >> d &> e f", [["a", "f"]]),
        ("a ${B} $1 x#y # z; w", [["a", "${B}", "$1", "x#y"]]),
        ("a \\\n b", [["a", "b"]]),
        ("", []),
        (" ;; ", []),
    ],
)
def test_simple_commands_are_split(text: str, words: list[list[str]]) -> None:
    found = recognition.simple_commands(text)
    assert found is not None
    assert [[word.text for word in command] for command in found] == words


@pytest.mark.parametrize(
    "text",
    [
        "a <<E",
        "a $(b)",
        "a `b`",
        'a "$(b)"',
        'a "`b`"',
        "(a)",
        "{ a; }",
        "if a; then b; fi",
        "a 'b",
    ],
)
def test_what_is_not_plain_is_none(text: str) -> None:
    assert recognition.simple_commands(text) is None


def test_a_word_ends_where_others_may_follow() -> None:
    text = "x; 'my agent' hi"
    found = recognition.simple_commands(text)
    assert found is not None
    assert text[: found[1][0].end] == "x; 'my agent'"


def test_lines_are_joined_and_here_documents_are_not_read() -> None:
    assert recognition.script_lines("a \\\n  b\n  c\n") == ["a    b", "c"]
    assert recognition.script_lines("a <<E\nb\nE\n") == []


def test_variables_that_lines_set_are_known() -> None:
    assert recognition.assigned('export A=1 \n  B="$C" x\necho D=2\n') == {"A": "1", "B": '"$C"'}
