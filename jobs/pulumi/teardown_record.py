"""The record of a teardown that has not ended, kept on this machine: Pulumi forgets the outputs
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
"""Names the folder of records; None is `.teardown` of the repository."""


class TeardownRecord:
    """Outputs of a stack that is being torn down: Pulumi forgets them before all is done.

    Args:
        repository: whose `.teardown/` is used unless the environment names another folder.
        stack: its name.
    """

    def __init__(self, repository: Path, stack: str) -> None:
        # Not in build/, which `make clean` removes.
        folder = Path(os.environ.get(VARIABLE) or repository / ".teardown")
        self._path = folder / f"{stack}.json"
        self._stack = stack

    @property
    def is_there(self) -> bool:
        """Whether a teardown of a stack of this name has not ended."""
        return self._path.exists()

    def read(self) -> PlatformOutputs:
        """What was written when the teardown began.

        Raises:
            PlatformReadError: nothing was.
        """
        try:
            return contract.from_dict(json.loads(self._path.read_text()))
        except FileNotFoundError as error:
            raise PlatformReadError(
                f"stack {self._stack}: was never deployed to its end, so it has no outputs, and no"
                " teardown of it was begun here. Deploy it again, or run `pulumi destroy --refresh"
                f" --stack {self._stack}` and purge its workspace and vault in the portal"
            ) from error
        except (OSError, ValueError, ProblemsError) as error:
            raise PlatformReadError(f"{self._path}: cannot be used ({error})") from error

    def has_begun(self, outputs: PlatformOutputs) -> bool:
        """Whether a teardown of just this platform was begun here.

        Raises:
            PlatformReadError: what was written cannot be used.
        """
        return self.is_there and _platform(self.read()) == _platform(outputs)

    def write(self, outputs: PlatformOutputs) -> None:
        """Keep the outputs until the end."""
        # Complete or absent: half of it would stand in the way of every further teardown.
        write_atomically(self._path, json.dumps(contract.to_dict(outputs), indent=1) + "\n")

    def remove(self) -> None:
        """Forget them."""
        self._path.unlink(missing_ok=True)


def _platform(outputs: PlatformOutputs) -> tuple[str, ...]:
    """What tells a platform from others."""
    names = (outputs.subscription_id, outputs.resource_group, outputs.workspace)
    return tuple(name.lower() for name in names)
