"""A make of our own, apart from the one that may have started the tests."""

import os
import re

from tests import ROOT

MAKEFILES = {"make": "Makefile", "make -C tools": "tools/Makefile"}
"""Files with targets, by the command that reads them."""

_READS = re.compile(r"^([a-z-]+)\.reads =(.*)$", re.MULTILINE)


def reads(command: str = "make") -> dict[str, str]:
    """Return the targets that a command has, each with the declaration of its variables."""
    return dict(_READS.findall((ROOT / MAKEFILES[command]).read_text()))


def environment() -> dict[str, str]:
    """This process's variables without those that make hands down to all that it starts: its
    options, and variables of its command line, such as ARGS.
    """
    declared = " ".join(text for command in MAKEFILES for text in reads(command).values())
    own = {*re.findall(r"[A-Z_]+", declared), "GPU", "PYTHON", "MFLAGS"}
    return {
        name: value
        for name, value in os.environ.items()
        if name not in own and not name.startswith("MAKE")
    }
