"""What `make site` leaves out of the site, and how large it may be."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from deploy import site

ROOT = Path(site.__file__).parents[1]


def built(folder: Path) -> Path:
    for name, content in {
        "index.html": '<a href="guides/a.html"><img src="pictures/shown.png">',
        "guides/a.html": '<link href="../icon.svg"><img src="../pictures/too.png">',
        "icon.svg": "<svg>",
        "pictures/shown.png": "1",
        "pictures/too.png": "1",
        "pictures/unused.png": "1",
        "assets/javascripts/bundle.min.js": "1",
        "assets/javascripts/bundle.min.js.map": "1",
        "assets/javascripts/lunr/min/lunr.de.min.js": "1",
        "sitemap.xml": "1",
        "404.html": '<img src="/pictures/unused.png">',
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content)
    return folder


def test_what_no_page_loads_is_left_out(tmp_path: Path) -> None:
    site.trim(built(tmp_path))
    left = {each.relative_to(tmp_path).as_posix() for each in tmp_path.rglob("*") if each.is_file()}
    assert left == {
        "index.html", "guides/a.html", "icon.svg", "pictures/shown.png", "pictures/too.png",
        "assets/javascripts/bundle.min.js",
    }  # fmt: skip


def test_a_site_that_is_too_large_is_an_error(tmp_path: Path) -> None:
    (built(tmp_path) / "search.json").write_text("x" * site.LIMIT_BYTES)
    with pytest.raises(site.SiteTooLargeError, match="more than 2,097,152"):
        site.trim(tmp_path)


def test_indentation_is_dropped_but_in_what_is_preformatted(tmp_path: Path) -> None:
    page = built(tmp_path) / "index.html"
    text = '<p>\n\n  one\n two\n<pre>a\n    b<span class="w"> </span>\n\n c</pre>\n   <p>'
    page.write_text(text)
    site.trim(tmp_path)
    assert page.read_text() == "<p>\none\ntwo\n<pre>a\n    b \n\n c</pre>\n<p>"


def test_the_search_knows_words_and_no_marks(tmp_path: Path) -> None:
    index = built(tmp_path) / "search" / "search_index.json"
    index.parent.mkdir()
    text = "<p>An <code>exchange</code>\n is &lt;one&gt; call.</p><pre><code>{}</code></pre>"
    index.write_text(json.dumps({"config": {}, "docs": [{"title": "a", "text": text}]}))
    site.trim(tmp_path)
    (found,) = json.loads(index.read_text())["docs"]
    assert found == {"title": "a", "text": "An exchange is &lt;one&gt; call."}


def test_figures_and_numbers_take_few_bytes(tmp_path: Path) -> None:
    figures = built(tmp_path) / "measurements" / "benchmarks.json"
    figures.parent.mkdir()
    figures.write_text('{\n  "machines": [\n    1\n  ]\n}\n')
    page = figures.with_name("benchmarks.html")
    page.write_text('<tr><td>one</td><td style="text-align: right;">1</td></tr>')
    site.trim(tmp_path)
    assert figures.read_text() == '{"machines":[1]}'
    assert page.read_text() == "<tr><td>one</td><td class=n>1</td></tr>"
    assert "td.n { text-align: right; }" in (ROOT / "docs" / "site.css").read_text()


def test_the_dialog_of_the_search_has_a_name(tmp_path: Path) -> None:
    page = built(tmp_path) / "index.html"
    page.write_text('<div class="md-search" data-md-component="search" role="dialog">')
    site.trim(tmp_path)
    assert 'aria-label="Search"' in page.read_text()


def test_the_theme_s_license_is_beside_its_scripts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    of_a_package_here = site.license_assets
    monkeypatch.setattr(site, "license_assets", lambda at, _: of_a_package_here(at, "pytest"))
    site.on_post_build({"site_dir": str(built(tmp_path))})
    assert "The MIT License" in (tmp_path / "assets" / "LICENSE.txt").read_text()
