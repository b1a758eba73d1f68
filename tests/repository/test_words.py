"""Documents and code use one word for one thing, and the field's own: CONTRIBUTING.md has the list.

A pattern of `words.py` came back often in earlier versions. Of pages, code, headings (other pages
link to them) and the tables that programs write are left out.
"""

import ast
import collections
import functools
import re

import pytest

from tests import ROOT
from tests.repository.words import Words, hits, words

PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")),
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted(ROOT.glob("*/extras/*/README.md")),
]


def prose(text: str) -> str:
    """Return a page without code, generated parts, headings and targets of links."""
    for left_out in (
        r"```.*?```",
        r"<!-- [^\n]* -->\n(?:(?!<!-- )[^\n]*\n)*?\|(?:(?!<!-- )[^\n]*\n)*<!-- end -->",
        r"<!--.*?-->",
    ):
        text = re.sub(left_out, "", text, flags=re.DOTALL)
    lines = [line for line in text.splitlines() if not re.match(r"    |#|> \[!", line)]
    text = re.sub(r"`[^`]*`", "X", " ".join(lines))
    return re.sub(r" +", " ", re.sub(r"\]\([^)]*\)", "]", text))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_has_none_of_the_patterns_that_came_back(page):
    assert [hit[1:] for hit in hits(prose(page.read_text(encoding="utf-8")))] == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Nobody submits trainings.", 2),
        ("It writes a manifest beside them, also if it goes on.", 3),
        ("`nobody` and\n    somebody\n# Whoever\n[nothing](nobody.md)\n", 0),
        ("Text. What moves data is different. What can leave?", 1),
    ],
)
def test_a_pattern_is_found_in_prose_alone(text, expected):
    assert len(list(hits(prose(text)))) == expected


WORLDS = (
    *("common", "environments", "infra", "jobs", "rehearsal", "serving", "tests", "tools"),
    "trainer",
)

NAMES_LEFT = {
    "common": 0,
    "environments": 0,
    "infra": 157,
    "jobs": 8,
    "rehearsal": 0,
    "serving": 0,
    "tests": 3359,
    "tools": 2,
    "trainer": 130,
}
"""How often names that do not say which thing they hold are left in a package; never more."""


@functools.cache
def read(world: str) -> dict[str, Words]:
    """Return the phrases and names to avoid in the modules of a package, by their paths."""
    return {
        str(path.relative_to(ROOT)): words(path.read_text("utf-8"), messages=world != "tests")
        for path in sorted((ROOT / world).rglob("*.py"))
    }


@pytest.mark.parametrize("world", WORLDS)
def test_docstrings_comments_and_messages_have_none_of_the_patterns(world):
    assert [
        f"{path}:{hit.line}: {hit.phrase} (say: {hit.instead})"
        for path, module in read(world).items()
        for hit in module.hits
    ] == []


@pytest.mark.parametrize("world", WORLDS)
def test_names_that_say_nothing_do_not_spread(world):
    names = sum((module.names for module in read(world).values()), collections.Counter())
    assert names.total() <= NAMES_LEFT[world], f"{names}: name the thing: record, match, reason"


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ('"""Return\nwhat is left."""\n', [2]),
        ("x = 1  # Beside it.\n# It also\n# goes on.\n", [1, 3]),
        ("raise ValueError(f'{path} is no data set; whoever reads it')\n", [1, 1]),
        ('"""Say what it costs and what is left; return None. What is this?"""\n', []),
        ("beside = 'beside'\nif what is None: what(x)\n", []),
        ('"""Return `what is` and\n`beside\nnobody`, and what is left."""\n', [3]),
    ],
)
def test_a_pattern_is_found_in_the_prose_of_code_alone(source, lines):
    assert [hit.line for hit in words(source, messages=True).hits] == lines


def test_a_name_is_counted_wherever_it_stands():
    source = "for one in found:\n    x.kept = one\n\ndef f(told): 'One was found there.'\n"
    assert words(source, messages=True).names == {"one": 2, "found": 1, "kept": 1, "told": 1}


SPELLED = re.compile(r"python -m trainer(?![.\w])")
"""How `ml-trainer` starts its own processes. No message names it, and of the pages that of images,
in which the command is not installed: a job brings the code."""
ELSEWHERE = ("CHANGELOG.md", "job-images.md")


@pytest.mark.parametrize("page", [page for page in PAGES if page.name not in ELSEWHERE], ids=str)
def test_a_page_writes_the_commands_of_the_trainer_in_one_way(page):
    assert not SPELLED.findall(page.read_text(encoding="utf-8"))


@pytest.mark.parametrize("world", ["common", "trainer", "jobs", "serving"])
def test_a_message_writes_the_commands_of_the_trainer_in_one_way(world):
    for path in sorted((ROOT / world).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            # A docstring is an expression of its own.
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
                node.value.value = ""
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                assert not SPELLED.search(node.value), f"{path}: {node.value}"
