"""Pages are rendered from templates: what becomes of their values."""

import importlib

import jinja2
import pytest

from common.page.parts import Page, Stat
from common.page.render import moment, render


@pytest.fixture
def template(tmp_path, monkeypatch):
    """A function that renders a page of a package with this one template."""

    def rendered(source, **values):
        (tmp_path / "pages" / "templates").mkdir(parents=True)
        (tmp_path / "pages" / "__init__.py").touch()
        (tmp_path / "pages" / "templates" / "page.html").write_text(source)
        monkeypatch.syspath_prepend(str(tmp_path))
        importlib.invalidate_caches()
        return render("pages", "page.html", **values)

    yield rendered
    from common.page import render as module

    module._environment.cache_clear()
    importlib.sys.modules.pop("pages", None)


def test_a_value_is_text_and_never_markup(template):
    source = "<i title=\"{{ value }}\">{{ value }}</i>{{ [value, value]|join(',') }}"
    assert template(source, value='<b>"&\x1b[31m\x00\ud800') == (
        '<i title="&lt;b&gt;&#34;&amp;\N{REPLACEMENT CHARACTER}?">'
        "&lt;b&gt;&#34;&amp;\N{REPLACEMENT CHARACTER}?</i>"
        + ",".join(["&lt;b&gt;&#34;&amp;\N{REPLACEMENT CHARACTER}?"] * 2)
    )


def test_a_value_that_is_not_known_is_a_dash_in_every_format(template):
    source = "{{ x }} {{ x|number }} {{ x|percent }} {{ x|duration }}"
    assert template(source, x=None) == " ".join("\N{EN DASH}" * 4)


def test_a_value_that_the_page_does_not_have_is_an_error(template):
    with pytest.raises(jinja2.UndefinedError, match="'tilte' is undefined"):
        template("{{ tilte }}", title="x")


def test_every_page_has_head_figures_and_sections_with_links(template):
    page = Page(
        title="t", heading="h", lead="l", notes=("careful",), stats=(Stat("size", "3", "of 4"),)
    )
    source = (
        '{% extends "base.html" %}{% set sections = {"one": "One", "two": "Two"} %}'
        "{% block one %}first{% endblock %}{% block two %}second{% endblock %}"
    )
    html = template(source, page=page)
    for part in (
        "<title>t</title>",
        "<h1>h</h1>",
        "</strong> careful</p>",
        '<dt>size</dt><dd class="value">3</dd><dd>of 4</dd>',
        '<li><a href="#two">Two</a></li>',
        '<h2 id="two">Two</h2>\nsecond',
        "content=\"default-src 'none';",
    ):
        assert part in html
    assert html.index("first") < html.index("second")


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.0, "1970-01-01 00:00 UTC"), (None, ""), (1e300, ""), (float("nan"), "")],
)
def test_a_moment_that_no_calendar_has_is_empty(seconds, words):
    assert moment(seconds) == words
