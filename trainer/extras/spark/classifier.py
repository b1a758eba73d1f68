"""An image classifier as a stage of a Spark ML pipeline: `ImageClassifier(...).fit(images)`.

The images of a DataFrame are written as Parquet, described in place, and trained on by
`trainer.extras.spark.run`; the model predicts by the exported SavedModel. This stands where
Databricks had HorovodEstimator, which took a `model_fn` of TensorFlow 1.
"""

import json
import tempfile
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Final, Self

from pyspark import keyword_only
from pyspark.ml.base import Estimator, Model
from pyspark.ml.param import Param, Params, TypeConverters
from pyspark.ml.util import (
    DefaultParamsReadable,
    DefaultParamsReader,
    DefaultParamsWritable,
    DefaultParamsWriter,
    MLReadable,
    MLReader,
    MLWritable,
    MLWriter,
)

from common.errors import ConfigError
from trainer.data.pixels.treatment import RejectedError, treat, treatment_of
from trainer.export.layout import FACTS, FOLDER, SAVED_MODEL
from trainer.extras.parquet.describe import prepare_parquet
from trainer.extras.parquet.options import PrepareParquetOptions
from trainer.extras.spark.driver import run

_PREDICTION: Final = "struct<prediction: double, class_name: string, confidence: double>"
_ROW_GROUP_BYTES: Final = 8_000_000
"""Size of a row group, which the trainer reads at once and in order."""
_FRACTIONS: Final = 10_000
_BATCH: Final = 32
_NONE: Final = (float("nan"), None, float("nan"))
"""Label, name and probability of rows without an image."""


class _ImageColumn(Params):
    image_col = Param(
        Params._dummy(),
        "image_col",
        "column of encoded images (JPEG or PNG; predictions also take others), binary",
        TypeConverters.toString,
    )


class ImageClassifier(
    Estimator[Any], _ImageColumn, DefaultParamsReadable[Any], DefaultParamsWritable
):
    """Trains a network on the images of a DataFrame.

    Args:
        folder: Folder for data and run, with the same absolute path on driver and executors.
        image_col: Column of encoded images (JPEG or PNG), binary.
        label_col: Column of labels: whole numbers from 0, such as `StringIndexer` makes, whose
            texts become the names of the classes.
        num_proc: Number of ranks; as many slots must be free.
        restarts: Most restarts in a row without a newer checkpoint.
        held_out: Fraction of the images to evaluate on. An image is held out by a hash of its
            bytes, so equal images are on the same side.
        options: Options of `ml-trainer train`, such as ["--epochs", "30"].
    """

    folder = Param(Params._dummy(), "folder", "folder for data and run", TypeConverters.toString)
    label_col = Param(Params._dummy(), "label_col", "column of labels", TypeConverters.toString)
    num_proc = Param(Params._dummy(), "num_proc", "number of ranks", TypeConverters.toInt)
    restarts = Param(Params._dummy(), "restarts", "most restarts in a row", TypeConverters.toInt)
    held_out = Param(Params._dummy(), "held_out", "fraction held out", TypeConverters.toFloat)
    options = Param(
        Params._dummy(),
        "options",
        "options of `ml-trainer train`",
        TypeConverters.toListString,
    )

    @keyword_only
    def __init__(
        self,
        *,
        folder: str = "",
        image_col: str = "image",
        label_col: str = "label",
        num_proc: int = 1,
        restarts: int = 3,
        held_out: float = 0.1,
        options: tuple[str, ...] | list[str] = ("--preset", "images"),
    ) -> None:
        super().__init__()
        self._set(**self._input_kwargs)
        self._setDefault(
            folder="",
            image_col="image",
            label_col="label",
            num_proc=1,
            restarts=3,
            held_out=0.1,
            options=["--preset", "images"],
        )

    def _fit(self, dataset: Any) -> "ImageClassifierModel":
        """Train.

        Raises:
            ConfigError: There is no folder, or a column has another type.
            UserError: See `trainer.extras.spark.run`.
        """
        value = {param.name: self.getOrDefault(param) for param in self.params}
        if not Path(value["folder"]).is_absolute():
            raise ConfigError(["folder: name an absolute folder that driver and executors share"])
        name = f"{self.uid}-{datetime.now().astimezone():%Y%m%d-%H%M%S}"
        data = Path(value["folder"]) / name / "data"
        names = _write_images(dataset, value, data)
        prepare_parquet(
            PrepareParquetOptions(input=str(data), class_names=names), "ImageClassifier.fit"
        )
        where = ["--data.dir", str(data), "--runs-dir", str(data.parent), "--name", "run"]
        args = [*value["options"], *where, "--export", "True"]
        folder = run(dataset.sparkSession, args, value["num_proc"], value["restarts"])
        exported = folder / FOLDER / SAVED_MODEL
        files = {
            path.relative_to(exported).as_posix(): path.read_bytes()
            for path in sorted(exported.rglob("*"))
            if path.is_file()
        }
        files[FACTS] = (exported.parent / FACTS).read_bytes()
        return self._copyValues(ImageClassifierModel(files, str(folder)))


def _write_images(dataset: Any, value: dict[str, Any], data: Path) -> str | None:
    """Write images and labels as Parquet files of both splits, in an order that a hash decides.

    Returns:
        File with the names of the classes; None if the labels have none.

    Raises:
        ConfigError: A column has another type.
    """
    from pyspark.sql import functions as sql

    image, label = sql.col(value["image_col"]), sql.col(value["label_col"])
    kinds = dict(dataset.dtypes)
    if kinds.get(value["image_col"]) != "binary":
        raise ConfigError(
            [
                f"image_col: {value['image_col']!r} is {kinds.get(value['image_col'], 'missing')};"
                " it must be the bytes of image files, such as `content` of Spark's binaryFile"
            ]
        )
    # A label that is not whole becomes null, which the description refuses with its row.
    whole = sql.when(label == label.cast("int"), label.cast("int"))
    rows = dataset.select(
        image.alias("image"), whole.alias("label"), sql.xxhash64(image).alias("hash")
    )
    held_out = sql.pmod("hash", sql.lit(_FRACTIONS)) < round(value["held_out"] * _FRACTIONS)
    for split, selected in (("train", ~held_out), ("validation", held_out)):
        part = rows.where(selected).repartition("hash").sortWithinPartitions("hash")
        writer = part.drop("hash").write.option("parquet.block.size", _ROW_GROUP_BYTES)
        writer.parquet((data / split).as_uri())
    attributes = dataset.schema[value["label_col"]].metadata.get("ml_attr", {})
    if "vals" not in attributes:
        return None
    names = data / "classes.txt"
    names.write_text("".join(f"{name}\n" for name in attributes["vals"]), encoding="utf-8")
    return str(names)


class ImageClassifierModel(Model, _ImageColumn, MLReadable[Any], MLWritable):
    """Predicts the class of images. `transform` adds the columns `prediction` (the label),
    `class_name` and `confidence` (its probability), which are null for rows without an image.
    """

    def __init__(self, files: dict[str, bytes] | None = None, run_folder: str = "") -> None:
        super().__init__()
        self._setDefault(image_col="image")
        self.files = files or {}
        """Files of the SavedModel by their names, and export.json."""
        self.run_folder = run_folder
        """Folder of the run, with its report; empty if the model was loaded."""

    def _transform(self, dataset: Any) -> Any:
        import pandas as pd
        from pyspark.sql.functions import pandas_udf

        # A model that an earlier version saved has none.
        facts = json.loads(self.files.get(FACTS, b"{}"))
        files, key = dataset.sparkSession.sparkContext.broadcast(self.files), self.uid

        @pandas_udf(_PREDICTION)
        def predict(batches: Iterator[pd.Series]) -> Iterator[pd.DataFrame]:
            signature = _load(key, files)
            for batch in batches:
                yield _predict(signature, batch, facts)

        predicted = dataset.withColumn("_predicted", predict(self.getOrDefault(self.image_col)))
        return predicted.select(*dataset.columns, "_predicted.*")

    def write(self) -> MLWriter:
        return _ModelWriter(self)

    @classmethod
    def read(cls) -> MLReader[Self]:
        return _ModelReader(cls)


class _ModelWriter(MLWriter):
    def __init__(self, model: ImageClassifierModel) -> None:
        super().__init__()
        self._model = model

    def saveImpl(self, path: str) -> None:  # noqa: N802
        DefaultParamsWriter.saveMetadata(self._model, path, self.sc)
        # From a broadcast, because Spark sends the rows of a driver in messages of limited size.
        files, names = self.sc.broadcast(self._model.files), sorted(self._model.files)
        rows = self.sc.parallelize(names, len(names)).map(lambda name: (name, files.value[name]))
        frame = self.sparkSession.createDataFrame(rows, "name string, content binary")
        frame.write.parquet(f"{path}/files")


class _ModelReader(MLReader[Any]):
    def __init__(self, cls: type[ImageClassifierModel]) -> None:
        super().__init__()
        self._cls = cls

    def load(self, path: str) -> ImageClassifierModel:
        metadata = DefaultParamsReader.loadMetadata(path, self.sc)
        rows = self.sparkSession.read.parquet(f"{path}/files").collect()
        model = self._cls({row.name: bytes(row.content) for row in rows})
        model._resetUid(metadata["uid"])
        DefaultParamsReader.getAndSetParams(model, metadata)
        return model


_loaded: dict[str, Any] = {}
"""The last model that this process has loaded, by its key: Spark uses a process again."""


def _load(key: str, files: Any) -> Any:
    if key not in _loaded:
        import tensorflow as tf

        # Several processes of an executor would each take all memory of a GPU.
        tf.config.set_visible_devices([], "GPU")
        _loaded.clear()
        with tempfile.TemporaryDirectory() as scratch:
            for name, content in files.value.items():
                path = Path(scratch, name)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
            _loaded[key] = tf.saved_model.load(scratch)
    return _loaded[key].signatures["serving_default"]


def _predict(signature: Any, images: Any, facts: Mapping[str, Any]) -> Any:
    """Return a table with a row for each image of a batch."""
    import pandas as pd

    rows, treatment = [], treatment_of(facts)
    for begin in range(0, len(images), _BATCH):
        part = images.iloc[begin : begin + _BATCH]
        treated = [_treated(bytes(image or b""), treatment) for image in part]
        classes = iter(_classify(signature, [image for image in treated if image]))
        rows += [next(classes) if image else _NONE for image in treated]
    return pd.DataFrame(rows, columns=["prediction", "class_name", "confidence"])


def _treated(image: bytes, treatment: Mapping[str, Any]) -> bytes | None:
    """Return an image as the evaluation saw it; None without an image."""
    try:
        return treat(image, **treatment).data
    except RejectedError:
        return None


def _classify(signature: Any, encoded: list[bytes]) -> list[tuple[float, str | None, float]]:
    """Return label, name and probability of each image, without a name for rows without an
    image.
    """
    import tensorflow as tf

    try:
        output = signature(images=tf.constant(encoded, tf.string))
    except tf.errors.InvalidArgumentError:
        if len(encoded) == 1:
            return [_NONE]
        return [row for image in encoded for row in _classify(signature, [image])]
    columns = (output[key].numpy() for key in ("class_ids", "class_names", "probabilities"))
    return [
        (float(numbers[0]), names[0].decode(), float(parts[0]))
        for numbers, names, parts in zip(*columns, strict=True)
    ]
