"""The search itself: a canary is found in each form it could have been kept in."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from urllib.parse import quote

from tests.privacy.canaries import PROMPT, canary, key, leaks
from tests.tables import each

FORMS: dict[str, Callable[[str], bytes]] = {
    "as said": str.encode,
    "upper case": lambda text: text.upper().encode(),
    "lower case": lambda text: text.lower().encode(),
    "in JSON": lambda text: json.dumps({"a": text}).encode(),
    "in JSON in JSON": lambda text: json.dumps(json.dumps([text])).encode(),
    "in a URL": lambda text: quote(text, safe="").encode(),
    "every byte of a URL escaped": lambda text: b"".join(b"%%%02X" % b for b in text.encode()),
    "every letter escaped": lambda text: b"".join(b"\\u%04x" % ord(c) for c in text),
    "every letter escaped in JSON": lambda text: json.dumps(
        "".join(f"\\u{ord(c):04x}" for c in text)
    ).encode(),
    "UTF-16": lambda text: text.encode("utf-16"),
    "hexadecimal": lambda text: text.encode().hex().encode(),
    "base64": lambda text: base64.b64encode(text.encode()),
    "base64, one on": lambda text: base64.b64encode(b"x" + text.encode()),
    "base64, two on": lambda text: base64.urlsafe_b64encode(b"xy" + text.encode()),
    "base64 of lower case": lambda text: base64.b64encode(text.lower().encode()),
    "a Python repr": lambda text: repr(text.encode()).encode(),
}


@each("form", FORMS)
def test_a_canary_is_found_in_any_form(form: str) -> None:
    held = b"before " + FORMS[form](PROMPT.text) + b" after"
    assert {leak.word for leak in leaks([("a place", held)])} == {PROMPT.word}


@each("form", FORMS)
def test_its_word_alone_is_found_too(form: str) -> None:
    held = FORMS[form](PROMPT.word)
    assert [leak.place for leak in leaks([("clean", b"prompt"), ("dirty", held)])][:1] == ["dirty"]


def test_another_word_is_none_of_ours() -> None:
    assert leaks([("a place", canary("other").text.encode())]) == []


def test_every_key_has_the_canary_of_keys() -> None:
    assert len(leaks([("a place", key("openai").encode())])) == 1
