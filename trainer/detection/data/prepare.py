"""`python -m trainer prepare detection`: images and their boxes, as COCO or YOLO describes them."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from common.errors import ConfigError
from common.image_files import SUFFIXES
from common.text import plural
from trainer.data.manifest import Manifest
from trainer.data.pixels.treatment import Encoded, RejectedError
from trainer.data.prepare.input_files import ImageFile, Inputs, folder_problems, in_folder
from trainer.data.prepare.job import prepare
from trainer.data.prepare.pool import WorkThrough, work_through
from trainer.data.prepare.rejected import RejectedFile
from trainer.detection.boxes import UnfitBoxError, fitted, main_class, pack
from trainer.detection.data import coco, yolo
from trainer.detection.data.annotations import Annotations, Sized
from trainer.detection.data.options import PrepareDetectionOptions
from trainer.detection.leaf import BOXES
from trainer.errors import DataError


@dataclass(frozen=True)
class BoxFiles:
    """The boxes of a data set, checked; see `TargetFiles`."""

    boxes: Callable[[str, int, int], Sized]
    """See `Annotations.boxes`."""
    classes: int
    """Number of classes."""
    unfit: str
    """What becomes of a box that does not fit: reject or drop."""
    most: int
    """Most boxes of an image."""

    def read(self, name: str, image: Encoded, *, resize: bool) -> tuple[dict[str, bytes], int]:
        """See `TargetFiles.read`: the boxes, and the class of the largest object."""
        found, width, height = self.boxes(name, image.width, image.height)
        if found and resize and not (width and height):
            raise RejectedError(
                "has boxes without the width and height of their image, so they cannot be shrunk"
                " with it (--reencode); add both to its annotations"
            )
        width, height = width or image.width, height or image.height
        same_shape = abs(width * image.height - height * image.width) <= max(
            width, height, image.width, image.height
        )
        if (width, height) != (image.width, image.height) and not (resize and same_shape):
            turned = (width, height) == (image.height, image.width)
            why = ", as if it were not turned upright as its EXIF says" if turned else ""
            raise RejectedError(
                f"has {image.width} x {image.height} pixels, but its boxes are for {width} x"
                f" {height}{why}"
            )
        kept = []
        for box in found:
            try:
                kept.append(fitted(box, width, height, self.classes))
            except UnfitBoxError as error:
                if self.unfit == "reject":
                    raise RejectedError(f"{error} (--unfit-boxes drop leaves it out)") from error
        if len(kept) > self.most:
            raise RejectedError(f"has {len(kept)} boxes, more than --most-boxes {self.most}")
        return {BOXES: pack(kept, width, height)}, main_class(kept)


def prepare_detection(
    options: PrepareDetectionOptions, command: str, work_through: WorkThrough = work_through
) -> Manifest:
    """Write images and their boxes as a data set.

    Raises:
        ConfigError: A folder or file is not given or does not exist, or classes are missing.
        DataError: The annotations cannot be read or contradict each other; or see `job.prepare`.
    """
    folder, output = Path(options.input), Path(options.output)
    problems = [
        f"--annotations: no file {file}" for file in options.annotations if not Path(file).is_file()
    ]
    problems += folder_problems(options.output, input=options.input)
    if options.pages != "first":
        problems.append("--pages: boxes are of the first image of a file; set it to first")
    if problems:
        raise ConfigError(problems)
    files = tuple(file for file in in_folder(folder, folder) if not file.fault)
    images = {file.path: file for file in files if Path(file.path).suffix.lower() in SUFFIXES}
    if not images:
        raise DataError(f"{folder}: has no images ({', '.join(SUFFIXES)})")
    named = [Path(file) for file in options.annotations]
    jsons = named or coco.annotation_files(folder, files)
    if jsons:
        if options.classes:
            raise ConfigError(["--classes: COCO's files have names of classes; leave it out"])
        annotations = coco.read(jsons, images)
    else:
        annotations = yolo.read(folder, files, images, options.classes)
    inputs = listed(annotations, options, len(images))
    return prepare(inputs, output, options, command, options.held_out, work_through)


def listed(annotations: Annotations, options: PrepareDetectionOptions, found: int) -> Inputs:
    """Return the images of which annotations tell, of those found. If only some of them have a
    split, the others are for training.

    Raises:
        DataError: There are none, or there are held-out images but none for training.
    """
    images = [file for file in annotations.images if isinstance(file, ImageFile)]
    splits = {file.split for file in images}
    if not splits:
        example = [
            f": {f.name} {f.reason}" for f in annotations.images if isinstance(f, RejectedFile)
        ]
        raise DataError(f"no image has annotations{''.join(example[:1])}")
    if "train" not in splits and "" not in splits:
        raise DataError(
            f"all {plural(len(annotations.images), 'image')} are held out, by the word in the name"
            " of their folder or file; training images are in a folder or file called train"
        )
    # As in COCO files called instances.json and instances_val.json.
    rest = "train" if "validation" in splits else ""
    # Whatever changes a record must change the hash of the listing as well.
    marks = 2 * options.most_boxes + (options.unfit_boxes == "drop")

    def files() -> Iterator[ImageFile | RejectedFile]:
        for file in annotations.images:
            split = file.split if splits != {"train"} and file.split else rest
            if isinstance(file, ImageFile):
                yield replace(file, split=split, changed=file.changed + marks)
            else:
                yield replace(file, split=split)

    notes = annotations.notes
    if found > len(images):
        left = plural(found - len(images), "image")
        notes = (*notes, f"left out, because no annotations name them: {left}")
    count, unfit = len(annotations.classes), options.unfit_boxes
    targets = BoxFiles(annotations.boxes, count, unfit, options.most_boxes)
    return Inputs(annotations.classes, files, notes=notes, targets=targets, above=0)
