"""A make of our own, apart from the one that may have started the tests."""

import os
import re

from tests import ROOT


def environment() -> dict[str, str]:
    """This process's variables without what make hands down to all that it starts: its options, and
    what a person has set on its command line, such as ARGS.
    """
    text = (ROOT / "Makefile").read_text()
    own = {*re.findall(r"^(\w+) \?=", text, re.MULTILINE), "MFLAGS"}
    return {
        name: value
        for name, value in os.environ.items()
        if name not in own and not name.startswith("MAKE")
    }
