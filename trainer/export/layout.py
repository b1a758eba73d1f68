"""The layout of an export folder. Standard library only."""

from pathlib import Path

FOLDER = "export"
"""Name of the export in a run folder."""
SAVED_MODEL, ONNX, FACTS = "saved_model", "model.onnx", "export.json"


def find_saved_model(folder: Path) -> Path | None:
    """Return the SavedModel of an export, or the folder itself if it is one; None without one."""
    return next(
        (path for path in (folder / SAVED_MODEL, folder) if (path / "saved_model.pb").is_file()),
        None,
    )
