"""The command line that each process of a job runs. Pure."""

import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from common import fields
from jobs.spec.job_spec import PLACEHOLDER

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

TRAINER: Final = ("python", "-m", "trainer")


def line(*words: str) -> str:
    """Words as a shell takes them, except for references to inputs and outputs: Azure replaces
    these before or inside the shell, so they stay without quotes.
    """
    return " ".join(map(_quoted, words))


def changed(options: "DataclassInstance", *, without: Sequence[str] = ()) -> list[str]:
    """The options of a trainer's command that differ from their defaults, with their flags.

    Args:
        options: such as `trainer.options.PrepareFolderOptions`.
        without: keys that are left out.
    """
    defaults = type(options)()
    words = []
    for leaf in fields.leaves(type(options)):
        value = fields.get(options, leaf.key)
        if leaf.key not in without and value != fields.get(defaults, leaf.key):
            words += [leaf.flag, str(value)]
    return words


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
