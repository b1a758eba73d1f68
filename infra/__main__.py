"""The Pulumi program: reads the settings of the stack and declares the platform.

Run by `pulumi up`; without Azure, `python -m infra.render.render STACK` shows what it declares.
"""

import sys
from pathlib import Path

# The engine adds this folder to sys.path, where platform.py would shadow the standard library's
# module. Replace it with the parent, so that the `infra` package is importable.
HERE = Path(__file__).resolve().parent
sys.path[:] = [str(HERE.parent), *(entry for entry in sys.path if Path(entry).resolve() != HERE)]

import pulumi  # noqa: E402

from infra import stack_config  # noqa: E402
from infra.composition import platform  # noqa: E402
from infra.errors import PlatformError  # noqa: E402

try:
    settings = stack_config.from_stack()
except PlatformError as error:
    # The engine prints a traceback for every exception except its own.
    raise pulumi.RunError(str(error)) from None

for name, value in platform.declare(settings).items():
    pulumi.export(name, value)
