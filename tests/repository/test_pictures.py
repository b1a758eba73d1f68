"""The screenshots in the documents show pages as they are now."""

import json
import re

import pytest
from PIL import Image

from tests import ROOT
from tools.references.pictures import PICTURES, TAKEN, headings

IMAGES = ROOT / "docs" / "images"


@pytest.mark.parametrize("name", PICTURES)
def test_a_screenshot_shows_the_headings_and_columns_of_today(name):
    taken = json.loads(TAKEN.read_text())[name]
    assert len(taken) > 3
    assert taken == PICTURES[name](), f"{name} is old: run `make -C tools pictures`"


def test_headings_are_told_from_other_text():
    page = (
        "<h1>A <b>run</b></h1><p>text</p><table><th>loss\n and</th>"
        '<tr><th scope="row">data.dir</th><td>1</td></tr></table>'
    )
    assert headings(page) == ["A run", "loss and"]


def test_every_screenshot_is_taken_by_the_command():
    screenshots = {path.name for path in IMAGES.glob("*.png")}
    assert screenshots == set(PICTURES)
    script = (ROOT / "scripts" / "pictures").read_text()
    assert screenshots == set(re.findall(r"docs/images/(\w+\.png)", script))


@pytest.mark.parametrize(
    ("name", "width"),
    [
        ("overview.svg", 860),
        ("overview-tall.svg", 360),
        ("architecture.svg", 860),
        ("access.svg", 860),
    ],
)
def test_a_drawing_can_be_read_where_it_is_shown_and_loads_nothing(name, width):
    """Documents show it as wide as its units, on a dark page in dark colours."""
    drawing = (IMAGES / name).read_text()
    assert re.search(rf'viewBox="0 0 {width} \d+"', drawing)
    assert "prefers-color-scheme: dark" in drawing
    sizes = {int(size) for size in re.findall(r'font-size="(\d+)"', drawing)}
    assert sizes
    assert min(sizes) >= 13
    assert not re.search(r"(?:href|src)=|@import|url\((?!#)", drawing)
    assert "<title>" in drawing


@pytest.mark.parametrize("name", PICTURES)
def test_a_screenshot_is_wide_enough_to_be_read(name):
    with Image.open(IMAGES / name) as picture:
        assert picture.width >= 1000
