"""Commands that name an agent where a program stands, and those that only look so."""

from __future__ import annotations

import shlex

import pytest

from tests.tables import each
from truezero.runner.recognition import find, find_chosen, find_in_shell, insert, name_of

NAMES = {"aider", "claude", "claude-code", "codex", "mini", "mini-swe-agent", "minisweagent"}
CODEX = frozenset({"codex"})


@each(
    "command, name, place",
    [
        ("codex exec hi", "codex", 0),
        ("/usr/local/bin/claude -p hi", "claude", 0),
        ("../codex exec hi", "codex", 0),
        ("node_modules/.bin/codex exec hi", "codex", 0),
        ("npx codex", "codex", 1),
        ("npx -y @openai/codex@latest exec hi", "codex", 2),
        ("npx --yes @openai/codex@^0.169 exec hi", "codex", 2),
        ("npx -p @openai/codex codex exec hi", "codex", 3),
        ("npx --package=@openai/codex -- codex exec hi", "codex", 3),
        ("pnpm dlx @openai/codex exec hi", "codex", 2),
        ("bunx @openai/codex@latest hi", "codex", 1),
        ("uvx mini-swe-agent -t hi", "mini-swe-agent", 1),
        ("uvx --from mini-swe-agent==2.4.6 mini -t hi", "mini", 3),
        ("uvx --python 3.12 mini-swe-agent[full]==2.4.6 -t hi", "mini-swe-agent", 3),
        ("uv run --with litellm mini -t hi", "mini", 4),
        ("uv run -m minisweagent -t hi", "minisweagent", 3),
        ("uv run python -m minisweagent", "minisweagent", 4),
        ("uv tool run mini-swe-agent", "mini-swe-agent", 3),
        ("pipx run --spec mini-swe-agent mini", "mini", 4),
        ("venv/bin/python3.12 -m minisweagent", "minisweagent", 2),
        ("env VAR=x codex exec hi", "codex", 2),
        ("env -u OPENAI_API_KEY A=1 B=2 codex", "codex", 5),
        ("timeout -k 5 --signal=INT 1h codex exec hi", "codex", 5),
        ("nice -n 10 timeout 60 nohup env A=1 npx -y @openai/codex hi", "codex", 10),
    ],
)
def test_an_agent_is_known_where_a_program_is_named(command: str, name: str, place: int) -> None:
    words = command.split()
    found = find(words, NAMES)
    assert found is not None
    assert (found.name, found.place) == (name, place)
    assert list(found.words) == words[place + 1 :]
    told = insert(words, found, ["-c", "a=b"])
    assert list(told) == [*words[: place + 1], "-c", "a=b", *words[place + 1 :]]


@each(
    "command",
    [
        "mycodex exec hi", "codex2 exec hi", "codex.txt", "codex-exec hi", "./solve codex",
        "grep claude notes", "python agent.py codex", "python -m pytest codex",
        "env codex=1 ./solve",
        "timeout 60", "npx", "npx cowsay codex", "npx -c codex",
        "npm install codex", "uvx --from codex black", "uv add codex",
        "uv run --with codex pytest",
        "sudo codex", "docker run codex", "sh", "sh -c", "sh -c codex", "bash script codex",
        "-codex", "",
    ],
)  # fmt: skip
def test_what_only_looks_like_an_agent_is_none(command: str) -> None:
    assert find(command.split(), NAMES) is None


@each(
    "command, assigned",
    [
        ("env A=1 B=x=y codex C=3", {"A": "1", "B": "x=y"}),
        ("codex A=1", {}),
    ],
)
def test_what_a_command_sets_for_its_agent_is_known(command: str, assigned: dict[str, str]) -> None:
    found = find(command.split(), NAMES)
    assert found is not None
    assert found.assigned == assigned


@pytest.mark.parametrize("shell", ["sh -c", "bash -lc", "timeout 9 /bin/sh -e -c"])
@each(
    "text, told",
    [
        ("codex exec 'do it'", "codex +x exec 'do it'"),
        ("cd repo && codex exec hi > log", "cd repo && codex +x exec hi > log"),
        ("echo hi | npx @openai/codex@1 exec -", "echo hi | npx @openai/codex@1 +x exec -"),
        (
            'if true; then codex "a codex"; codex b; fi',
            'if true; then codex +x "a codex"; codex b; fi',
        ),
        ('./log "codex"; (codex b)', './log "codex"; (codex +x b)'),
        ("./mycodex; cat codex.txt", None),
        ("", None),
    ],
)
def test_in_a_shells_text_it_is_found_for_who_chooses_it(
    shell: str, text: str, told: str | None
) -> None:
    command = [*shell.split(), text, "sh", "more"]
    assert find(command, NAMES) is None
    found = find_in_shell(command, NAMES)
    assert (found and found.name) == (told and "codex")
    chosen = insert(command, find_chosen(command, CODEX), ["+x"])
    assert chosen == (*shell.split(), told or text, "sh", "more")


def test_words_put_into_a_shells_text_are_quoted() -> None:
    command = ["sh", "-c", "codex hi"]
    words = ["-c", 'url="http://x"', "it's; $A"]
    text = insert(command, find_chosen(command, CODEX), words)[2]
    assert shlex.split(text) == ["codex", *words, "hi"]


@each(
    "command, told",
    [
        ("codex hi", "codex +x hi"),
        ("env A=1 ./solve hi", "env A=1 ./solve +x hi"),
        ("node dist/codex.js hi", "node dist/codex.js +x hi"),
        ("poetry run codex hi", "poetry run codex +x hi"),
        ("bash solve.sh hi", "bash solve.sh hi"),
        ("timeout 9", "timeout 9"),
    ],
)
def test_a_chosen_agent_is_where_it_is_named_else_the_program(command: str, told: str) -> None:
    assert insert(command.split(), find_chosen(command.split(), CODEX), ["+x"]) == tuple(
        told.split()
    )


@each(
    "word, name",
    [
        ("codex", "codex"),
        ("/usr/bin/codex", "codex"),
        ("@openai/codex", "codex"),
        ("@openai/codex@0.169.0", "codex"),
        ("bin/codex.js", "codex"),
        ("mini-swe-agent[full]>=2,<3", "mini-swe-agent"),
        ("codex.txt", "codex.txt"),
        ("codex hi", ""),
        ("", ""),
    ],
)
def test_a_program_is_named_without_where_it_lies(word: str, name: str) -> None:
    assert name_of(word) == name
