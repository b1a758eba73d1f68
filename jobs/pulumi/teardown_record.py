"""The record of an unfinished teardown, kept on this machine because Pulumi deletes the outputs
first.

A deployment that never completed has no outputs. Its record is an empty object: the names of its
resources follow from the settings, which Pulumi keeps.
"""

import json
import os
from pathlib import Path
from typing import Final

from common.errors import ProblemsError
from common.files import write_atomically
from infra import outputs as contract
from infra.outputs import PlatformOutputs
from jobs.azure.error_messages import Platform
from jobs.errors import PlatformReadError

VARIABLE: Final = "JOBS_TEARDOWN_FOLDER"
"""Environment variable with the folder of records; the default is `.teardown` in the repository."""


class TeardownRecord:
    """Outputs of a stack that is being torn down, as Pulumi deletes them before all is done.

    Args:
        repository: Folder whose `.teardown/` is used unless JOBS_TEARDOWN_FOLDER is set.
        stack: Name of the stack.
    """

    def __init__(self, repository: Path, stack: str) -> None:
        # Not in build/, which `make clean` removes.
        folder = Path(os.environ.get(VARIABLE) or repository / ".teardown")
        self._path = folder / f"{stack}.json"

    @property
    def is_there(self) -> bool:
        """Whether a teardown of a stack of this name is unfinished."""
        return self._path.exists()

    def read(self) -> PlatformOutputs | None:
        """Read the outputs that were written when the teardown began; None if there were none, or
        no teardown has begun.

        Raises:
            PlatformReadError: The record cannot be read.
        """
        try:
            data = json.loads(self._path.read_text())
            return contract.from_dict(data) if data else None
        except FileNotFoundError:
            return None
        except (OSError, ValueError, ProblemsError) as error:
            raise PlatformReadError(f"{self._path}: cannot be read ({error})") from error

    def has_begun(self, platform: Platform) -> bool:
        """Whether a teardown of this very platform was started on this machine.

        Raises:
            PlatformReadError: The record cannot be read.
        """
        if not self.is_there:
            return False
        written = self.read()
        if written is None:
            return not isinstance(platform, PlatformOutputs)
        return _platform(written) == _platform(platform)

    def write(self, platform: Platform) -> None:
        """Write the outputs, if there are any, to be kept until the teardown is complete."""
        data = contract.to_dict(platform) if isinstance(platform, PlatformOutputs) else {}
        # Atomic: a partial file would block every further teardown.
        write_atomically(self._path, json.dumps(data, indent=1) + "\n")

    def remove(self) -> None:
        """Delete the record."""
        self._path.unlink(missing_ok=True)


def _platform(outputs: Platform) -> tuple[str, ...]:
    """Return what identifies a platform."""
    names = (outputs.subscription_id, outputs.resource_group, outputs.workspace)
    return tuple(name.lower() for name in names)
