"""What the folder of an export holds. Standard library only."""

from pathlib import Path

FOLDER = "export"
"""Name of an export in a run's folder."""
SAVED_MODEL, ONNX, FACTS = "saved_model", "model.onnx", "export.json"
STRANGE = "neither JPEG nor PNG"
"""What the model says of images that are something else."""


def find_saved_model(folder: Path) -> Path | None:
    """The SavedModel of an export, or the folder itself if it is one."""
    return next(
        (path for path in (folder / SAVED_MODEL, folder) if (path / "saved_model.pb").is_file()),
        None,
    )
