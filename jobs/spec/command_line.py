"""The command line that each process of a job runs. Pure."""

import shlex
from typing import Final

from jobs.spec.job_spec import PLACEHOLDER

TRAINER: Final = ("python", "-m", "trainer")


def line(*words: str) -> str:
    """Join words into a shell command line. References to inputs and outputs are not quoted, as
    Azure replaces them before or within the shell.
    """
    return " ".join(map(_quoted, words))


def _quoted(word: str) -> str:
    references = list(PLACEHOLDER.finditer(word))
    if not references:
        return shlex.quote(word)
    parts, end = [], 0
    for reference in references:
        parts += [word[end : reference.start()], reference[0]]
        end = reference.end()
    parts.append(word[end:])
    return "".join(
        part if PLACEHOLDER.fullmatch(part) else shlex.quote(part) for part in parts if part
    )
