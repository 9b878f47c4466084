"""What a feature adds that is unknown, or clashes, fails as the service is put together."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import proxy.feature
import proxy.features
import proxy.parts
import proxy.plane
from proxy.feature import FeatureError, features, settings_of_features, upstream_options
from proxy.plane import all_routes, all_tabs, planes
from proxy.settings import KernelSettings
from proxy.web.batch_pages import TABS

FEATURE = "from proxy.feature import Feature\n\nFEATURE = Feature({})\n"
SETTINGS = """
from pydantic import BaseModel

class Own(BaseModel):
    {setting}: int = 0

SETTINGS = Own
UPSTREAM_OPTIONS = {{{option!r}: lambda name, value: value}}
"""
PLANE = """
from fastapi import APIRouter

from proxy.plane import Plane
from proxy.web.batch_tabs import BatchTab
from proxy.web.panels import NavigationItem, Panel, PanelPlace

router = APIRouter()

@router.{method}({path!r})
async def answer() -> None: ...

async def read(*_):
    return None

PLANE = Plane(
    routes=router.routes,
    panels=[Panel(place=PanelPlace.ROLLOUT_SUMS, template={template!r}, read=read)],
    tabs=[BatchTab(name={tab!r}, label="Tab", template="{name}/panel.html", read=read)],
    navigation=[NavigationItem({link!r}, "/", "Link")],
)
"""

Make = Callable[..., None]


def _forget() -> None:
    features.cache_clear()
    planes.cache_clear()
    for name in [name for name in sys.modules if name.startswith("proxy.features.toy")]:
        del sys.modules[name]


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Make]:
    """Switch on one more feature: its parts, and the texts of its modules."""
    names: list[str] = []
    monkeypatch.setattr(proxy.features, "__path__", [*proxy.features.__path__, str(tmp_path)])

    def made(name: str, says: str = "", **files: str) -> None:
        folder = tmp_path / name
        (folder / "templates").mkdir(parents=True)
        (folder / "templates/panel.html").touch()
        (folder / "__init__.py").write_text(FEATURE.format(says), "utf-8")
        for module, text in files.items():
            (folder / f"{module}.py").write_text(text, "utf-8")
        names.append(name)
        monkeypatch.setattr(proxy.feature, "NAMES", tuple(names))
        importlib.invalidate_caches()
        _forget()

    yield made
    monkeypatch.undo()
    _forget()


def settings(setting: str = "toy", option: str = "toy") -> str:
    return SETTINGS.format(setting=setting, option=option)


def plane(name: str, **other: str) -> str:
    given = {
        "method": "get", "path": f"/{name}", "template": f"{name}/panel.html", "tab": name,
        "link": name,
    }  # fmt: skip
    return PLANE.format(name=name, **given | other)


def test_what_is_well_made_is_taken(make: Make) -> None:
    make("toy", "settings=True, plane=True", settings=settings(), plane=plane("toy"))
    make("toy2", "settings=True, plane=True", settings=settings("b", "b"), plane=plane("toy2"))
    assert [*features()] == ["toy", "toy2"]
    assert [*upstream_options()] == ["toy", "b"]
    assert [kind.__name__ for kind in settings_of_features()] == ["Own", "Own"]
    assert len(all_routes([])) == 2
    assert [tab.name for tab in all_tabs(TABS)][-2:] == ["toy", "toy2"]


def test_a_name_without_a_folder(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proxy.feature, "NAMES", ("toy",))
    features.cache_clear()
    with pytest.raises(FeatureError, match="feature 'toy': No module named"):
        features()


def test_a_name_that_stands_twice(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    make("toy")
    monkeypatch.setattr(proxy.feature, "NAMES", ("toy", "toy"))
    with pytest.raises(FeatureError, match="'toy': it is named twice"):
        features()


@pytest.mark.parametrize("text", ["", "FEATURE = 1\n"])
def test_a_folder_that_says_nothing_of_a_feature(text: str, make: Make, tmp_path: Path) -> None:
    make("toy")
    (tmp_path / "toy/__init__.py").write_text(text, "utf-8")
    with pytest.raises(FeatureError, match=r"feature 'toy': .*FEATURE"):
        features()


@pytest.mark.parametrize("part", ["settings", "tables", "registration", "upkeep", "start", "plane"])
def test_a_module_that_is_named_and_missing(part: str, make: Make) -> None:
    make("toy", f"{part}=True")
    with pytest.raises(FeatureError, match=f"feature 'toy': it has no module '{part}'"):
        features()


def test_a_process_that_starts_lacks_no_module_of_a_feature(make: Make) -> None:
    make("toy", "start=True")
    with pytest.raises(FeatureError, match="'start'"):
        proxy.parts.start(SimpleNamespace())  # type: ignore[arg-type]  # it is not asked


def test_two_features_with_one_setting(make: Make) -> None:
    for name in ("toy", "toy2"):
        make(name, "settings=True", settings=settings(option=name))
    with pytest.raises(FeatureError, match="setting 'toy': features 'toy' and 'toy2' have it"):
        settings_of_features()


def test_a_setting_of_the_kernels_name(make: Make) -> None:
    make("toy", "settings=True", settings=settings("port"))
    with pytest.raises(FeatureError, match="setting 'port': the kernel and feature 'toy'"):
        settings_of_features(KernelSettings.model_fields)


def test_two_features_with_one_option_of_upstreams(make: Make) -> None:
    for name in ("toy", "toy2"):
        make(name, "settings=True", settings=settings(setting=name))
    with pytest.raises(FeatureError, match="'toy' of upstreams: feature 'toy' and feature 'toy2'"):
        upstream_options()


def test_an_option_of_the_kernels_name(make: Make) -> None:
    make("toy", "settings=True", settings=settings(option="url"))
    with pytest.raises(FeatureError, match="'url' of upstreams: the kernel and feature 'toy'"):
        upstream_options(("name", "url"))


@pytest.mark.parametrize("tab", ["toy", "overview"])
def test_a_tab_of_the_name_of_another(tab: str, make: Make) -> None:
    make("toy", "plane=True", plane=plane("toy"))
    make("toy2", "plane=True", plane=plane("toy2", tab=tab))
    with pytest.raises(FeatureError, match=f"tab '{tab}'"):
        all_tabs(TABS)


def test_a_link_of_the_name_of_another(make: Make) -> None:
    make("toy", "plane=True", plane=plane("toy"))
    make("toy2", "plane=True", plane=plane("toy2", link="toy"))
    with pytest.raises(FeatureError, match="link 'toy'"):
        planes()


def test_a_route_that_another_feature_answers(make: Make) -> None:
    make("toy", "plane=True", plane=plane("toy", path="/x/{a:path}"))
    make("toy2", "plane=True", plane=plane("toy2", path="/x/{b:path}"))
    with pytest.raises(FeatureError, match=r"route 'GET /x/{:path}'"):
        all_routes([])


def test_a_route_that_the_kernel_answers(make: Make) -> None:
    from proxy.control_plane import _ROUTES

    make("toy", "plane=True", plane=plane("toy", path="/batches/{name:path}"))
    with pytest.raises(FeatureError, match=r"route 'GET /batches/{:path}'"):
        all_routes(_ROUTES)


def test_another_method_of_one_path_is_another_route(make: Make) -> None:
    make("toy", "plane=True", plane=plane("toy"))
    make("toy2", "plane=True", plane=plane("toy2", method="post", path="/toy"))
    assert len(all_routes([])) == 2


@pytest.mark.parametrize("template", ["toy/none.html", "batches.html", "pace/waiting.html"])
def test_a_template_that_its_folder_does_not_have(template: str, make: Make) -> None:
    make("toy", "plane=True", plane=plane("toy", template=template))
    with pytest.raises(FeatureError, match=f"feature 'toy': there is no template '{template}'"):
        planes()


def test_the_features_of_this_service_are_well_made() -> None:
    assert [*features()] == [*proxy.features.NAMES]
    kept: Any = settings_of_features(KernelSettings.model_fields)
    assert all(kind.model_fields for kind in kept)
