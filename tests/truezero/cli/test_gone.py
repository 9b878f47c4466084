from __future__ import annotations

from collections.abc import Sequence

import click
import pytest
from click.testing import CliRunner

from truezero.cli import app, gone


def run(*words: str, command: click.Command = app) -> tuple[int, str, str]:
    result = CliRunner().invoke(command, words, prog_name="truezero")
    return result.exit_code, result.stdout, result.stderr


@pytest.mark.parametrize("words", gone.COMMANDS)
@pytest.mark.parametrize("rest", [(), ("--whatever", "it", "--took")], ids=["alone", "with words"])
def test_a_command_that_is_gone_says_what_takes_its_place(words: str, rest: Sequence[str]) -> None:
    code, out, err = run(*words.split(), *rest)
    assert (code, out) == (2, "")
    assert f"`truezero {words}` is gone: {gone.COMMANDS[words]}" in err
    *group, name = words.split()
    assert f"  {name} " not in run(*group, "--help")[1]


@click.command()
@gone.option("--seal", is_flag=True, instead="sign the file with a tool of your own")
@gone.option("--key", type=str, instead="sign the file with a tool of your own")
def command() -> None:
    click.echo("done")


@pytest.mark.parametrize("words", [("--seal",), ("--key", "k.pem")], ids=lambda w: w[0])
def test_an_option_that_is_gone_has_no_effect_and_warns(words: Sequence[str]) -> None:
    code, out, err = run(*words, command=command)
    assert (code, out) == (0, "done\n")
    instead = "sign the file with a tool of your own"
    assert err == f"warning: {words[0]} is gone, and has no effect: {instead}\n"


def test_an_option_that_is_gone_is_silent_where_nobody_gives_it() -> None:
    assert run(command=command) == (0, "done\n", "")
    assert "--seal" not in run("--help", command=command)[1]
