"""The documents use one word for one thing, and the field's own: CONTRIBUTING.md has the list.

A pattern here came back often in earlier versions of the pages. Code, headings (other pages link to
them) and the tables that programs write are left out.
"""

import ast
import re

import pytest

from tests import ROOT

PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")),
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted(ROOT.glob("*/extras/*/README.md")),
]

INSTEAD = {
    r"trainings": "runs, jobs",
    r"(a|each|every|one|another|first|expensive|running) training"
    r"(?= (that|which|of|by|on|at)\b|[.,:;)])": "run",
    r"nobody|somebody|whoever|anybody": "the person or the role; anyone, no one, idle",
    r"(met|meet|meets) Azure": "run on Azure",
    r"(hold|holds|held) (against|all of this|all this)": "check, enforce, inject",
    r"also (without|if|when|where)": "even without, even if",
    r"beside": "next to, in addition to",
    r"(?<!there )(is|are|was|were) (no|none)(?! longer| more)": "is not a",
    r"goes on|go on|in its place|in their place": "continues, instead",
    r"is another|another than": "differs, other than",
    r"undisturbed|byte for byte|to the bit": "uninterrupted, bit-identical",
    r"in ascending order|page of facts|rests on": "cheapest first, report, is based on",
    r"so many (minutes|steps)": "that many, N",
    r"all the same": "nevertheless, still",
    r"(?<=\. )What [a-z' ]+? (is|are|was|were|can|needs|costs|runs|moves|touches)"
    r"(?![^.]*\?)": "name the thing as the subject",
}
"""Patterns, each with words to use instead."""


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


def found(text: str) -> list[str]:
    """Return the places at which a text has a pattern, each with words to use instead."""
    return [
        f"...{text[max(0, match.start() - 50) : match.end() + 30]}... (say: {instead})"
        for pattern, instead in INSTEAD.items()
        for match in re.finditer(rf"\b(?:{pattern})(?!\w)", text, re.IGNORECASE)
    ]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_has_none_of_the_patterns_that_came_back(page):
    assert found(prose(page.read_text(encoding="utf-8"))) == []


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
    assert len(found(prose(text))) == expected


SPELLED = re.compile(r"python -m trainer(?![.\w])")
"""How `ml-trainer` starts its own processes, and no page or message names it."""


@pytest.mark.parametrize("page", [page for page in PAGES if page.name != "CHANGELOG.md"], ids=str)
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
