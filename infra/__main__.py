"""The Pulumi program of a stack, which `make up` runs through `pulumi up`.

    stack_config.py              opens the settings that Pulumi passes
    validation.py                reads and checks them, once in a process, with checks/network.py
    composition/platform.py      declares all components, and names the steps in order:
        composition/services.py          vault, storage accounts, registry
        composition/connectivity.py      network, DNS zones, private endpoints
        composition/observability.py     where logs go
        composition/stack_outputs.py     what jobs are given; outputs.py has its form

The settings are in settings.py and network_settings.py; leaf.py says what an extra adds to them.
naming.py forms all names, subnets.py the address plan, and composition/parts.py holds the parts
that an extra is given. Each component of `components/` declares the resources of one service.

Without Azure, `python -m infra.render.render STACK` shows what the program declares.
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
