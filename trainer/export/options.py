"""Options of `ml-trainer export` and `ml-trainer predict`. Standard library only."""

from dataclasses import dataclass, make_dataclass
from typing import Annotated, Literal

from common.annotations import Bounds, Positional
from trainer.config import Positive
from trainer.leaves import LEAVES

EXPORTERS = tuple(leaf.exporter for leaf in LEAVES if leaf.exporter)
"""Contents of an export besides the network of the run, or instead of it."""


@dataclass(frozen=True)
class SavedModelOptions:
    """Write a run's model as a SavedModel that takes encoded images and needs none of this code."""

    run: str = "runs/latest"
    """Folder of the run; its data set need not be there."""

    checkpoint: Literal["last", "best"] | None = None
    """last: the newest valid checkpoint; best: the best kept checkpoint by its evaluation. None is
    last; with early stopping, best."""

    output: str | None = None
    """Folder to write, by default `export` in the run folder. An existing export is replaced."""

    top: Annotated[int, Positive] = 5
    """Classes that the model returns for each image; all of them if it has fewer."""

    max_accuracy_loss: Annotated[float, Bounds(at_least=0, at_most=1)] = 0.01
    """Largest difference between the results of the SavedModel and of a model of less precision on
    the validation split, as a part of all images; with a larger one nothing is exported."""

    accept_changed_code: bool = False
    """Build your own network from the files of the builder as they are now, if they have changed;
    otherwise it is built from those that the run keeps."""


ExportOptions: type[SavedModelOptions] = make_dataclass(
    "ExportOptions",
    [],
    bases=(
        *(exporter.options for exporter in EXPORTERS if exporter.options),
        SavedModelOptions,
    ),
    frozen=True,
)
ExportOptions.__doc__ = SavedModelOptions.__doc__


@dataclass(frozen=True)
class PredictOptions:
    """Print the most probable classes of images, using an exported model."""

    images: Annotated[tuple[str, ...], Positional("IMAGE...")] = ()
    """Image files (JPEG, PNG, WebP, BMP, GIF, TIFF), or folders that are searched for such files by
    their suffixes."""

    run: str = "runs/latest"
    """Folder of the run whose export is used."""

    model: str | None = None
    """Folder of an export to use instead of the run's."""

    top: Annotated[int | None, Positive] = None
    """Classes to print for each image, by default all that the model returns: 5, unless it was
    exported with another --top."""

    json: bool = False
    """Print one JSON object per image, each on a separate line."""

    draw: str | None = None
    """Folder to write a JPEG of each image into, NUMBER-NAME.jpg, with its predictions drawn on it;
    for models whose task draws."""
