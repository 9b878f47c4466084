"""Files that a hostile program left are refused in a sentence: nothing hangs, memory is bounded.

Every command runs in one process whose memory is limited; a pipe without a writer would block it.
"""

from __future__ import annotations

import json
import os
import socket
import struct
import subprocess
import sys
import zlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

from tests.house import ROOT
from tests.truezero.audit.harnesses import dump_lines, maseval_report
from tests.truezero.audit.scenarios import Scenario
from truezero.audit.report import audit
from truezero.foreign import DEPTH, ForeignError, open_file, parse, read, text_lines

HONEST = Scenario(kind="solved", number=1, calls=("ok",), reward=1.0, failed=False)
PATIENCE_S = 600  # a command that hangs
MEMORY = 3 * 2**29  # bytes of address space; the interpreter and its libraries take a third

# --- what is hostile ---


def brackets(file: Path) -> None:
    file.write_text("[" * 100_000)


def closed_brackets(file: Path) -> None:
    """What a parser with a large stack reads, and code that recurses does not."""
    file.write_text('{"id":' + "[" * 900 + "]" * 900 + "}\n")


def objects(file: Path) -> None:
    file.write_text('{"record":' * 100_000)


def pipe(file: Path) -> None:
    os.mkfifo(file)


def unix_socket(file: Path) -> None:
    """A socket; its address is relative, for one has room for 107 bytes."""
    here = os.open(".", os.O_RDONLY)
    try:
        os.chdir(file.parent)
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(file.name)
    finally:
        os.fchdir(here)
        os.close(here)


def device(file: Path) -> None:
    file.symlink_to("/dev/zero")


def holes(file: Path) -> None:
    """A file of 64 GiB that takes no room on a disk."""
    file.touch()
    os.truncate(file, 2**36)


def no_utf8(file: Path) -> None:
    file.write_bytes(b'{"id": "\xff"}\n')


def digits(file: Path) -> None:
    file.write_text('{"id": ' + "9" * 100_000 + "}\n")


TOO_DEEP, SPECIAL = f"nested deeper than {DEPTH} levels", "not a regular file but a pipe"
LARGE, NOT_UTF8, LONG_NUMBER = "larger than", "utf-8", "integer string conversion"

HOSTILE: Mapping[Callable[[Path], None], str] = {
    brackets: TOO_DEEP,
    closed_brackets: TOO_DEEP,
    objects: TOO_DEEP,
    pipe: SPECIAL,
    unix_socket: SPECIAL,
    device: SPECIAL,
    holes: LARGE,
    no_utf8: NOT_UTF8,
    digits: LONG_NUMBER,
}

# --- who reads it ---

READERS: Mapping[str, Sequence[str]] = {
    "x.json": ("audit", "FILE", "--map", "id=id"),
    "x.jsonl": ("audit", "FILE", "--map", "id=id"),
    "card": ("card", "verify", "FILE", "--export", "none"),
    "classifier": ("python -m classifier", "FILE"),
    "answers": ("python -m classifier", "--answers", "FILE"),
    "classify": ("classify", "FILE"),
    "rejudge": ("classify", "FILE", "--causes", "CAUSES"),
    "import": ("import", "FILE", "--database", "DATABASE"),
    "mask": ("mask", "FILE", "--batch", "b"),
}
# Readers that say it in other words: orjson counts levels itself, an archive begins with its head.
OTHERWISE: Mapping[tuple[str, str], str] = {
    ("import", "brackets"): "line 1: ",
    ("import", "closed_brackets"): "not an archive",
    ("import", "objects"): "line 1: ",
    ("import", "no_utf8"): "line 1: ",
    ("import", "digits"): "line 1: ",
    ("mask", "no_utf8"): "not UTF-8",
}

_PROGRAM = """
import contextlib, io, json, resource, sys, threading
from click.testing import CliRunner
from classifier.__main__ import main
from truezero.cli import app, options
import proxy.features.exports.archive
from truezero import foreign
foreign.MOST_OF_LINE = 2**24  # spares reading zeros
options.FIRST_S = threading.TIMEOUT_MAX  # no lines of progress
resource.setrlimit(resource.RLIMIT_AS, ({memory}, {memory}))
ended = []
for words in json.load(sys.stdin):
    if words[0] == "python -m classifier":
        said = io.StringIO()
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
            code = main(words[1:])
        ended.append([code, said.getvalue(), ""])
    else:
        done = CliRunner().invoke(app, words)
        known = done.exception is None or isinstance(done.exception, SystemExit)
        ended.append([done.exit_code, done.stderr, "" if known else repr(done.exception)])
print(json.dumps(ended))
"""


def run(folder: Path, commands: Sequence[Sequence[str]]) -> list[tuple[int, str, str]]:
    """Exit code, standard error and unforeseen exception of each command."""
    clean = {name: value for name, value in os.environ.items() if "TRUEZERO" not in name}
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM.format(memory=MEMORY)], input=json.dumps(commands),
        cwd=folder, env={**clean, "PYTHONPATH": str(ROOT), "TRUEZERO_URL": "http://127.0.0.1:9"},
        capture_output=True, text=True, check=False, timeout=PATIENCE_S,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return [(code, said, unforeseen) for code, said, unforeseen in json.loads(done.stdout)]


CASES = [(reader, make) for reader in READERS for make in HOSTILE]
Ended = Mapping[tuple[str, str], tuple[int, str, str]]


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> Ended:
    folder = tmp_path_factory.mktemp("hostile")
    causes = folder / "causes.toml"
    causes.write_text('[[causes]]\nname = "own"\nstatus = 418\ncause = "rate_limit"\n')
    commands = []
    for reader, make in CASES:
        place = folder / reader.replace(".", "-") / make.__name__
        place.mkdir(parents=True)
        file = place / (reader if "." in reader else "x.json")
        make(file)
        named = {"FILE": file, "CAUSES": causes, "DATABASE": place / "truezero.db"}
        commands.append([str(named.get(word, word)) for word in READERS[reader]])
    names = [(reader, make.__name__) for reader, make in CASES]
    return dict(zip(names, run(folder, commands), strict=True))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("reader", "make"), CASES, ids=lambda each: each if isinstance(each, str) else each.__name__
)
def test_a_hostile_file_is_refused_in_a_sentence(
    ended: Ended, reader: str, make: Callable[[Path], None]
) -> None:
    code, said, unforeseen = ended[reader, make.__name__]
    assert (code, unforeseen) == (1 if reader == "import" else 2, ""), said
    assert OTHERWISE.get((reader, make.__name__), HOSTILE[make]) in said
    assert len(said.splitlines()) == 1


# --- a folder of results ---


@pytest.fixture
def results(tmp_path: Path) -> Path:
    folder = tmp_path / "results"
    dump_lines(folder / "benchmark.jsonl", [maseval_report(HONEST, adapted=True)])
    return folder


def test_a_symbolic_link_among_results_is_neither_read_nor_copied(results: Path) -> None:
    secret = results.parent / "secret.json"
    dump_lines(secret, [maseval_report(HONEST, adapted=True)])
    (results / "x.jsonl").symlink_to(secret)
    (results / "notes.txt").symlink_to(secret)
    (results / "home").symlink_to(results.parent, target_is_directory=True)
    report = audit(results, out=results.parent / "copy", write=True)
    assert len(report.runs) == 1
    assert report.lost == (
        f"{results / 'x.jsonl'}: a symbolic link out of the folder: put a copy of its file there",
    )
    assert report.uncorrected == ("not copied: 3 symbolic links or special files",)
    copied = [each.name for each in (results.parent / "copy").rglob("*")]
    assert copied == ["benchmark.jsonl"]


def test_a_link_to_a_file_of_the_same_results_is_no_finding(results: Path) -> None:
    (results / "latest.jsonl").symlink_to("benchmark.jsonl")
    report = audit(results)
    assert (len(report.runs), report.lost, report.copies) == (1, (), {})


def test_a_pipe_and_a_socket_among_results_are_named(results: Path) -> None:
    pipe(results / "x.json")
    unix_socket(results / "y.jsonl")
    report = audit(results, out=results.parent / "copy", write=True)
    assert [each.partition(": ")[2] for each in report.lost] == [
        "not a regular file but a pipe, a socket or a device"
    ] * 2
    assert report.uncorrected == ("not copied: 2 symbolic links or special files",)


def test_a_file_that_the_user_names_may_be_a_link(results: Path) -> None:
    link = results.parent / "link.jsonl"
    link.symlink_to(results / "benchmark.jsonl")
    report = audit(link, out=results.parent / "copy", write=True)
    assert (len(report.runs), report.path) == (1, str(link))
    with open_file(link) as opened:
        assert opened.read(1) == b"{"
    with pytest.raises(OSError, match="a symbolic link, which is not followed"):
        read(link, links=False)


# --- archives ---


def packed(file: Path, members: Sequence[tuple[str, bytes, int]]) -> None:
    """Write a zip of members by name, packed content and the size that it says to unpack to."""
    body, directory = b"", b""
    for name, content, size in members:
        facts = struct.pack("<HHHHHIIIHH", 20, 0, 8, 0, 33, 0, len(content), size, len(name), 0)
        directory += b"PK\1\2" + struct.pack("<H", 20) + facts
        directory += struct.pack("<HHHII", 0, 0, 0, 0, len(body)) + name.encode()
        body += b"PK\3\4" + facts + name.encode() + content
    end = struct.pack("<HHHHIIH", 0, 0, len(members), len(members), len(directory), len(body), 0)
    file.write_bytes(body + directory + b"PK\5\6" + end)


def zeros(mib: int) -> bytes:
    """Deflate zeros, a thousand to one, without packing each of them."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    one = packer.compress(bytes(2**20)) + packer.flush(zlib.Z_FULL_FLUSH)
    return one * mib + packer.flush()


def small(text: str) -> bytes:
    packer = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    return packer.compress(text.encode()) + packer.flush()


HEAD = json.dumps({"version": 2, "status": "success", "eval": {"task": "t"}})
START = ("header.json", small(HEAD), len(HEAD))


def bomb(file: Path) -> None:
    """1.5 MB that unpack to 1.5 GB."""
    packed(file, [START, ("samples/a.json", zeros(1500), 1500 * 2**20)])
    assert file.stat().st_size < 2 * 10**6


def liar(file: Path) -> None:
    """A member that says to be small."""
    packed(file, [("header.json", zeros(1500), 10)])


def overlapping(file: Path) -> None:
    """Members that each unpack to little, and all to a terabyte."""
    packed(file, [START, *((f"samples/{n}.json", b"", 2**26) for n in range(16_384))])


def beyond(file: Path) -> None:
    """A member that says to be packed in more bytes than there are."""
    packed(file, [START])
    content = bytearray(file.read_bytes())
    place = content.index(b"PK\1\2") + 20
    content[place : place + 4] = struct.pack("<I", 2**30)
    file.write_bytes(content)


def deep(file: Path) -> None:
    text = '{"a":' * 100_000
    packed(file, [("header.json", small(text), len(text))])
    content = file.read_bytes()
    crc = struct.pack("<I", zlib.crc32(text.encode()))
    file.write_bytes(content.replace(struct.pack("<HI", 33, 0), struct.pack("<H", 33) + crc))


ZIPS: Mapping[Callable[[Path], None], str] = {
    bomb: "a ratio above 200:1",
    liar: "header.json: damaged",
    overlapping: "a ratio above 200:1",
    beyond: "header.json: damaged",
    deep: TOO_DEEP,
}


@pytest.mark.slow
def test_a_zip_that_would_fill_the_memory_is_refused_in_a_sentence(tmp_path: Path) -> None:
    commands = []
    for make in ZIPS:
        place = tmp_path / make.__name__
        place.mkdir()
        make(place / "log.eval")
        commands.append(["audit", str(place), "--write"])
    for make, (code, said, unforeseen) in zip(ZIPS, run(tmp_path, commands), strict=True):
        assert (code, unforeseen) == (2, ""), said
        assert ZIPS[make] in said
        assert len(said.splitlines()) == 1


# --- JSON ---


@pytest.mark.parametrize("text", ["[" * DEPTH + "]" * DEPTH, '{"a":[' + '"[[[",' * 1000 + "1]}"])
def test_what_is_nested_no_deeper_is_read(text: str) -> None:
    assert parse(text) == json.loads(text) == parse(text.encode())


@pytest.mark.parametrize("left, right", [("[", "]"), ('{"a":', "}")])
@pytest.mark.parametrize("levels", [DEPTH, 900, 100_000])
def test_what_is_nested_deeper_is_refused(left: str, right: str, levels: int) -> None:
    for text in (left * levels + "[0]" + right * levels, left * levels + "[0]" + "]" * 900):
        with pytest.raises(ForeignError):
            parse(text)


def test_a_line_ends_within_its_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("truezero.foreign.MOST_OF_LINE", 10)
    file = tmp_path / "x.jsonl"
    file.write_text("123456789\n" * 3 + "1234567890\n")
    lines = text_lines(file)
    assert [next(lines) for _ in range(3)] == ["123456789\n"] * 3
    with pytest.raises(ForeignError, match="a line is larger"):
        next(lines)
