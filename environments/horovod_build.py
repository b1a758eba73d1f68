"""Whether the installed Horovod was compiled for the installed TensorFlow. Standard library only.

`make setup` asks after each installation: an update of TensorFlow leaves a Horovod of an unchanged
version where it is, and that one no longer loads.
"""

import json
import sys
from importlib.metadata import PackageNotFoundError, distribution, version
from pathlib import Path
from typing import Final

_TENSORFLOW: Final = ("tensorflow-cpu", "tensorflow")


def stale(compiled_for: str, installed: str) -> str | None:
    """Say why Horovod must be compiled again; None if it need not be.

    Args:
        compiled_for: Content of the metadata.json that Horovod's build leaves.
        installed: Version of the installed TensorFlow.
    """
    was = json.loads(compiled_for).get("tensorflow")
    if was == installed:
        return None
    return f"Horovod was compiled for TensorFlow {was}, and {installed} is installed"


def main() -> int:
    """Print why Horovod must be compiled again; return 1 if it must."""
    metadata = Path(str(distribution("horovod").locate_file("horovod/metadata.json")))
    why = stale(metadata.read_text(encoding="utf-8"), _tensorflow())
    if why:
        print(why)
    return int(why is not None)


def _tensorflow() -> str:
    for name in _TENSORFLOW:
        try:
            return version(name)
        except PackageNotFoundError:
            continue
    raise PackageNotFoundError(" or ".join(_TENSORFLOW))


if __name__ == "__main__":
    sys.exit(main())
