"""The layout of an export folder. Standard library only."""

import sys
from math import isfinite
from pathlib import Path
from typing import Any

from common.files import parse_object
from trainer.errors import CheckpointError

FOLDER = "export"
"""Name of the export in a run folder."""
SAVED_MODEL, FACTS = "saved_model", "export.json"


def find_saved_model(folder: Path) -> Path | None:
    """Return the SavedModel of an export, or the folder itself if it is one; None without one."""
    return next(
        (path for path in (folder / SAVED_MODEL, folder) if (path / "saved_model.pb").is_file()),
        None,
    )


def export_facts(saved_model: Path) -> dict[str, Any]:
    """Return the content of the export.json next to a SavedModel; nothing if there is none.

    Raises:
        CheckpointError: It is damaged.
    """
    path = saved_model.parent / FACTS
    try:
        facts = parse_object(path.read_text(encoding="utf-8"))
        levels = facts.get("levels")
        # (0, 0) stands for the highest bit that each image uses.
        low, high = map(float, levels or (0, 0))
        damaged = (low, high) != (0, 0) and not (low < high and isfinite(high - low))
    except FileNotFoundError:
        return {}
    except (ArithmeticError, LookupError, OSError, TypeError, ValueError) as error:
        raise CheckpointError(f"{path}: cannot be used ({error}); export the run again") from error
    if damaged:
        raise CheckpointError(f"{path}: has the levels {levels}; export the run again")
    return facts


def exported_model(run: str, model: str | None) -> Path:
    """Return the SavedModel of a run's export, or of another export.

    Prints a warning if its network is that of other code than the run's.

    Args:
        run: Folder of the run.
        model: Folder of an export to use instead.

    Raises:
        CheckpointError: There is no export, or its export.json is damaged.
    """
    folder = Path(model) if model else Path(run) / FOLDER
    saved_model = find_saved_model(folder)
    if saved_model is None:
        if model:
            remedy = "name the folder of an export, which contains saved_model"
        elif (Path(run) / "config.json").exists():
            remedy = f"to make it, run: ml-trainer export --run {run}"
        else:
            raise CheckpointError(
                f"{run}: is not a run folder; it has no config.json; train first (`make train`)"
            )
        raise CheckpointError(f"{folder}: there is no exported model; {remedy}")
    if export_facts(saved_model).get("changed_code"):
        print(
            f"warning: {folder}: was exported with --accept-changed-code: its network is not the"
            " one that the run trained and evaluated",
            file=sys.stderr,
            flush=True,
        )
    return saved_model
