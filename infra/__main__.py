"""The Pulumi program: settings of the stack in, the platform out.

Run by `pulumi up`; without Azure, `python -m infra.offline.render STACK` shows what it declares.
"""

import sys
from pathlib import Path

# The engine puts this folder on the path, where platform.py would hide the standard library's; the
# package is wanted, which its parent holds.
HERE = Path(__file__).resolve().parent
sys.path[:] = [str(HERE.parent), *(entry for entry in sys.path if Path(entry).resolve() != HERE)]

import pulumi  # noqa: E402

from infra import stack_config  # noqa: E402
from infra.composition import platform  # noqa: E402
from infra.errors import PlatformError  # noqa: E402

try:
    settings = stack_config.from_stack()
except PlatformError as error:
    # The engine prints a traceback for every exception but its own.
    raise pulumi.RunError(str(error)) from None

pulumi.export("platform", platform.declare(settings))
