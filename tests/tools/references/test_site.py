"""The site has every page once, and links that lead somewhere; all files that it loads are on this
machine."""

import re
from pathlib import Path

import pytest

from tools.references.site.hook import PAGES, ROOT, admonished, place, relinked

SPARK_FOLDER = "trainer/extras/spark"
SPARK = f"{SPARK_FOLDER}/README.md"
MKDOCS = (ROOT / "mkdocs.yml").read_text()


def test_the_navigation_has_every_page_once():
    named = re.findall(r"^ +- (?:.*: )?(\S+\.md)$", MKDOCS, re.MULTILINE)
    there = {path.relative_to(ROOT / "docs").as_posix() for path in ROOT.glob("docs/**/*.md")}
    assert sorted(named) == sorted(there | set(PAGES))


def test_the_navigation_is_by_reader():
    parts = re.findall(r"^  - (\w+):$", MKDOCS.partition("\nnav:")[2], re.MULTILINE)
    assert parts == ["Start", "Guides", "Extras", "Platform", "Reference", "Evidence", "Contribute"]


def test_the_site_loads_nothing_from_the_internet():
    assert "font: false" in MKDOCS
    assert "https://" not in MKDOCS
    assert "https://" not in (ROOT / "docs" / "assets" / "site.css").read_text()


@pytest.mark.parametrize(
    ("link", "folder", "page", "leads_to"),
    [
        ("faq.md", "docs", "index.md", "faq.md"),
        ("../CONTRIBUTING.md#style", "docs", "faq.md", "CONTRIBUTING.md#style"),
        ("../README.md", "docs", "faq.md", "index.md"),
        ("../spot.md", "docs/reference", "reference/network.md", "../spot.md"),
        ("docs/faq.md", "", "SECURITY.md", "faq.md"),
        ("../serving/score.py", "docs", "scoring.md", "source/serving/score.py.md"),
        ("missing.md", "docs", "faq.md", "missing.md"),
        (f"../{SPARK}#what-happens", "docs", "data.md", f"{SPARK}#what-happens"),
        ("../../../docs/data.md", SPARK_FOLDER, SPARK, "../../../data.md"),
        ("../head/leaf.py", SPARK_FOLDER, SPARK, "../../../source/trainer/extras/head/leaf.py.md"),
        (
            "../evidence/README.md",
            SPARK_FOLDER,
            SPARK,
            "../../../trainer/extras/evidence/README.md",
        ),
    ],
)
def test_links_of_github_lead_somewhere_in_the_site(link, folder, page, leads_to):
    text = f"[text]({link}), [web](https://example.org/a.md)"
    expected = f"[text]({leads_to}), [web](https://example.org/a.md)"
    assert relinked(text, Path(folder), page, "") == expected


def test_a_known_repository_shows_its_own_files():
    text = relinked("[a](../serving/score.py)", Path("docs"), "a.md", "https://example.org/r")
    assert text == "[a](https://example.org/r/blob/main/serving/score.py)"


def test_a_file_that_the_site_lacks_has_no_place_in_it():
    assert place(Path("docs/images/spot.svg")) == "images/spot.svg"
    assert place(Path("serving/score.py")) is None


def test_an_alert_of_github_becomes_an_admonition():
    page = "Before.\n\n> [!WARNING]\n> Text\n> more.\n\nAfter.\n"
    assert admonished(page) == "Before.\n\n!!! warning\n\n    Text\n    more.\n\nAfter.\n"
