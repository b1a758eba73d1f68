"""Find phrases to avoid in the prose of pages and of Python code, and names that say nothing.

The prose of code is its docstrings and comments, and outside of tests its messages.
"""

import ast
import collections
import io
import re
import tokenize
from collections.abc import Iterator
from typing import Final, NamedTuple

_NO_QUESTION: Final = r"(?![^.]*\?)"

INSTEAD: Final = {
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
    + _NO_QUESTION: "name the thing as the subject",
}
"""Patterns, each with words to use instead."""

INSTEAD_IN_CODE: Final = {
    r"what (a|an|are|each|has|have|is|it|its|that|the|their|they|this|was|were|you)"
    + _NO_QUESTION: "name the thing",
}
"""Clauses in the place of a noun. Pages are free of them where a sentence begins."""

ASKING: Final = re.compile(
    r"\b((ask|describe|explain|know|say|see|show|tell)(s|ing)?|decid(e|es|ing)|known|said|told)\b",
    re.IGNORECASE,
)
"""Verbs after which "what" begins an indirect question in the same sentence, and stays."""

NAMES: Final = frozenset({"Choice", "found", "kept", "one", "there", "told"})
"""Names of variables, arguments and attributes that do not say which thing they hold."""


class Hit(NamedTuple):
    """A phrase to avoid."""

    line: int
    phrase: str
    instead: str


class Words(NamedTuple):
    """The result for one file: phrases to avoid, and how often each of `NAMES` is used."""

    hits: list[Hit]
    names: collections.Counter[str]


def _compiled(patterns: dict[str, str]) -> dict[re.Pattern[str], str]:
    return {
        re.compile(rf"\b(?:{pattern})(?!\w)".replace(" ", r"\s"), re.IGNORECASE): instead
        for pattern, instead in patterns.items()
    }


_INSTEAD = _compiled(INSTEAD)
_INSTEAD_IN_CODE = _compiled(INSTEAD_IN_CODE)
_SUSPECT: Final = re.compile(
    "|".join(pattern.pattern for pattern in (*_INSTEAD, *_INSTEAD_IN_CODE)).replace(
        _NO_QUESTION, ""
    ),
    re.IGNORECASE,
)
"""Matches wherever one of the patterns does, in the text of a module, too."""
_NAMED: Final = re.compile(rf"\b(?:{'|'.join(sorted(NAMES))})\b")


def hits(text: str, line: int = 1, *, code: bool = False) -> Iterator[Hit]:
    """Yield the phrases to avoid in a text that begins at a line, with context.

    Args:
        text: Prose, with its line breaks.
        line: Number of its first line.
        code: Whether it belongs to code, whose prose has more such phrases.
    """
    for pattern, instead in _INSTEAD.items():
        for match in pattern.finditer(text):
            yield _hit(text, line, match, instead)
    for pattern, instead in _INSTEAD_IN_CODE.items() if code else ():
        for match in pattern.finditer(text):
            if not ASKING.search(re.split(r"[.:;?!]\s", text[: match.start()])[-1]):
                yield _hit(text, line, match, instead)


def _hit(text: str, line: int, match: re.Match[str], instead: str) -> Hit:
    context = text[max(0, match.start() - 50) : match.end() + 30]
    return Hit(line + text.count("\n", 0, match.start()), " ".join(context.split()), instead)


def words(source: str, *, messages: bool) -> Words:
    """Return phrases and names to avoid in a module.

    A module whose text has neither is not parsed, which saves most of the time.

    Args:
        source: Its text.
        messages: Whether strings that are not docstrings are read, too.
    """
    names: collections.Counter[str] = collections.Counter()
    suspect = _SUSPECT.search(_flat(source))
    if not (suspect or _named(source)):
        return Words([], names)
    prose = list(_comments(source)) if suspect else []
    docstrings = set()
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Expr(value=ast.Constant(value=str(text)) as constant):
                docstrings.add(constant)
                prose.append((constant.lineno, text))
            case ast.JoinedStr(values=parts) if messages:
                docstrings.update(part for part in parts if isinstance(part, ast.Constant))
                text = "".join(
                    str(part.value) if isinstance(part, ast.Constant) else "X" for part in parts
                )
                prose.append((node.lineno, text))
            case ast.Constant(value=str(text)) if messages and " " in text:
                # One that begins with it is the title of a table.
                if node not in docstrings and not text.startswith("What "):
                    prose.append((node.lineno, text))
            case ast.Name(id=name) | ast.arg(arg=name) | ast.Attribute(attr=name):
                names[name] += name in NAMES
    return Words(
        [hit for at, text in prose if suspect for hit in hits(_plain(text), at, code=True)],
        +names,
    )


def _plain(text: str) -> str:
    """Return a text without code, titles of pages and names of arguments, with its line breaks."""
    text = re.sub(r"\[[^\]]*\]\([^)]*\)", "X", text)
    text = re.sub(r"`[^`]*`", lambda match: "X" + "\n" * match[0].count("\n"), text)
    return re.sub(r"\n\w+: ", "\n", _flat(text))


def _flat(text: str) -> str:
    """Return a text with one character between words, and without `None`."""
    text = re.sub(r"[ \t]*\n[ \t]*(?:# ?)?", "\n", text)
    return re.sub(r"[ \t]+", " ", text).replace("None", "X")


def _named(source: str) -> bool:
    return bool(_NAMED.search(re.sub(r'#.*|"""(?:.|\n)*?"""', "", source)))


def _comments(source: str) -> Iterator[tuple[int, str]]:
    """Yield comments, those of consecutive lines as one text, each with its first line."""
    start, lines = 0, list[str]()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type != tokenize.COMMENT:
            continue
        if token.start[0] != start + len(lines):
            yield start, "\n".join(lines)
            start, lines = token.start[0], []
        lines.append(token.string.lstrip("#").strip())
    yield start, "\n".join(lines)
