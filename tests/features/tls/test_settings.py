"""A certificate and its key are set together, or neither is."""

from __future__ import annotations

import pytest

from proxy.feature import embedded_settings, settings_of
from proxy.features.tls.settings import TlsSettings
from proxy.serving import connections
from proxy.settings import SettingsError, load

BOTH = {"TRUEZERO_CERTFILE": "a.pem", "TRUEZERO_KEYFILE": "b.pem"}


def test_both_files_are_named_or_neither() -> None:
    assert connections(load({}, {})).scheme == "http"
    settings = load({}, BOTH)
    files = settings_of(settings, TlsSettings)
    assert (files.certfile, files.keyfile) == ("a.pem", "b.pem")
    assert connections(settings).scheme == "https"
    for name, missing in (("certfile", "keyfile"), ("keyfile", "certfile")):
        with pytest.raises(SettingsError, match=f"^{name}: requires {missing}$"):
            load({name: "a.pem"}, {})


def test_none_takes_a_files_certificate_away() -> None:
    settings = load({"certfile": "none", "keyfile": "none"}, BOTH)
    files = settings_of(settings, TlsSettings)
    assert (files.certfile, files.keyfile) == (None, None)
    assert connections(settings).scheme == "http"


def test_a_service_that_a_command_starts_speaks_plain_http() -> None:
    apart = {f"TRUEZERO_{name.upper()}": value for name, value in embedded_settings().items()}
    files = settings_of(load({}, {**BOTH, **apart}), TlsSettings)
    assert (files.certfile, files.keyfile) == (None, None)
