"""The record of an unfinished teardown, kept on this machine because Pulumi deletes the outputs
first.
"""

import json
import os
from pathlib import Path
from typing import Final

from common.errors import ProblemsError
from common.files import write_atomically
from infra import outputs as contract
from infra.outputs import PlatformOutputs
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
        self._stack = stack

    @property
    def is_there(self) -> bool:
        """Whether a teardown of a stack of this name is unfinished."""
        return self._path.exists()

    def read(self) -> PlatformOutputs:
        """Read the outputs that were written when the teardown began.

        Raises:
            PlatformReadError: There is no record, or it cannot be read.
        """
        try:
            return contract.from_dict(json.loads(self._path.read_text()))
        except FileNotFoundError as error:
            raise PlatformReadError(
                f"stack {self._stack}: its deployment never completed, so it has no outputs, and no"
                " teardown of it was started on this machine. Deploy it again, or run `pulumi"
                f" destroy --refresh --stack {self._stack}` and purge its workspace and vault in"
                " the portal"
            ) from error
        except (OSError, ValueError, ProblemsError) as error:
            raise PlatformReadError(f"{self._path}: cannot be read ({error})") from error

    def has_begun(self, outputs: PlatformOutputs) -> bool:
        """Whether a teardown of this very platform was started on this machine.

        Raises:
            PlatformReadError: The record cannot be read.
        """
        return self.is_there and _platform(self.read()) == _platform(outputs)

    def write(self, outputs: PlatformOutputs) -> None:
        """Write the outputs, to be kept until the teardown is complete."""
        # Atomic: a partial file would block every further teardown.
        write_atomically(self._path, json.dumps(contract.to_dict(outputs), indent=1) + "\n")

    def remove(self) -> None:
        """Delete the record."""
        self._path.unlink(missing_ok=True)


def _platform(outputs: PlatformOutputs) -> tuple[str, ...]:
    """Return what identifies a platform."""
    names = (outputs.subscription_id, outputs.resource_group, outputs.workspace)
    return tuple(name.lower() for name in names)
