"""The classifier as a stage of a pipeline, and Parquet files that Spark has written."""

import numpy as np
import pytest
from PIL import Image
from sklearn.datasets import load_digits

from common.errors import ConfigError
from tests.trainer.data.intake.test_levels import png as deep_png
from tests.trainer.support.data_sets.image_files import (
    exif,
    gradients,
    jpeg,
    orientation,
    saved,
    with_segment,
)
from trainer.data.manifest import load_manifest
from trainer.data.prepare.options import VerifyOptions
from trainer.data.verify import verify
from trainer.extras.parquet.describe import prepare_parquet
from trainer.extras.parquet.options import PrepareParquetOptions
from trainer.extras.spark.driver import run

pytestmark = [pytest.mark.spark, pytest.mark.slow]

OPTIONS = [
    *("--preset", "images", "--epochs", "4", "--batch-size", "32"),
    *("--model.width", "8", "--model.stem", "3x3", "--model.image-size", "8"),
    *("--data.augment", "none", "--data.flip", "False", "--data.eval-crop", "1.0"),
    *("--data.streams", "4", "--optimizer.warmup-epochs", "0.5", "--log.report", "False"),
]
NAMES = ["eight", "four", "one"]
DIGITS = {8: "eight", 4: "four", 1: "one"}


def png(pixels):
    return saved(Image.fromarray((pixels * 15).astype(np.uint8)), "PNG")


@pytest.fixture(scope="module")
def frame(spark):
    """Images of three digits, each with its name."""
    data = load_digits()
    rows = [
        (png(image), DIGITS[digit])
        for image, digit in zip(data.images, data.target, strict=True)
        if digit in DIGITS
    ]
    return spark.createDataFrame(rows, "image binary, digit string")


def test_it_trains_in_a_pipeline_and_is_saved_and_loaded(spark, frame, tmp_path):
    from pyspark.ml import Pipeline, PipelineModel
    from pyspark.ml.feature import StringIndexer

    from trainer.extras.spark.classifier import ImageClassifier

    classifier = ImageClassifier(
        folder=str(tmp_path), num_proc=2, held_out=0.2, options=OPTIONS, label_col="index"
    )
    pipeline = Pipeline(stages=[
        StringIndexer(inputCol="digit", outputCol="index", stringOrderType="alphabetAsc"),
        classifier,
    ])  # fmt: skip
    pipeline.write().save((tmp_path / "pipeline").as_uri())
    loaded = Pipeline.load((tmp_path / "pipeline").as_uri())
    model = loaded.fit(frame)
    (data,) = tmp_path.glob("ImageClassifier_*/data")
    manifest = load_manifest(data)
    assert list(manifest.classes) == NAMES
    images = {name: split.examples for name, split in manifest.splits.items()}
    assert sum(images.values()) == frame.count()
    assert 0.1 < images["validation"] / frame.count() < 0.3

    predicted = model.transform(frame).collect()
    right = np.mean([row.class_name == row.digit for row in predicted])
    assert right > 0.9
    assert all(NAMES[int(row.prediction)] == row.class_name for row in predicted)
    assert all(0.3 < row.confidence <= 1 for row in predicted)

    model.write().save((tmp_path / "model").as_uri())
    again = PipelineModel.load((tmp_path / "model").as_uri())
    assert again.transform(frame).collect() == predicted


def test_images_are_seen_upright_and_what_is_no_image_has_no_prediction(spark):
    import pandas as pd
    import tensorflow as tf

    from trainer.data.pixels.treatment import Levels, Shrink, treat
    from trainer.extras.spark.classifier import _predict

    plain = jpeg(gradients())
    lying = with_segment(plain, 0xE1, exif(orientation(6)))
    damaged = plain[: len(plain) // 2] + b"\xff\xd9"
    seen = []

    class Signature:
        def __call__(self, images):
            encoded = images.numpy().tolist()
            if damaged in encoded:
                raise tf.errors.InvalidArgumentError(None, None, "damaged")
            seen.extend(encoded)
            return {
                "class_ids": tf.fill([len(encoded), 2], 1),
                "class_names": tf.fill([len(encoded), 2], "one"),
                "probabilities": tf.fill([len(encoded), 2], 0.5),
            }

    table = _predict(Signature(), pd.Series([plain, None, lying, b"text", damaged]), {})
    assert table["class_name"].tolist() == ["one", None, "one", None, None]
    assert table["prediction"].isna().tolist() == [False, True, False, True, True]
    assert seen == [plain, treat(lying).data]
    assert seen[1] != lying
    seen.clear()
    deep = deep_png(np.random.default_rng(0).integers(0, 4096, (20, 30), dtype=np.uint16))
    facts = {"levels": [0, 4095], "reencode": [8, 90]}
    _predict(Signature(), pd.Series([deep]), facts)
    assert seen == [treat(deep, shrink=Shrink(8, 90), levels=Levels(0, 4095)).data]
    assert seen != [treat(deep).data]


def test_columns_and_folders_that_do_not_fit_are_refused(spark, frame):
    from trainer.extras.spark.classifier import ImageClassifier

    with pytest.raises(ConfigError, match="absolute folder"):
        ImageClassifier(folder="here").fit(frame)
    with pytest.raises(ConfigError, match="'digit' is string"):
        ImageClassifier(folder="/tmp", image_col="digit", label_col="digit").fit(frame)


def test_parquet_that_spark_has_written_is_described_and_trained_on(spark, frame, tmp_path):
    from pyspark.sql import functions as sql

    digit = sql.col("digit")
    label = sql.when(digit == "eight", 0).when(digit == "four", 1).otherwise(2)
    rows = frame.select("image", label.alias("label"))
    held_out = sql.pmod(sql.xxhash64("image"), sql.lit(5)) == 0
    for split, part in (("train", rows.where(~held_out)), ("validation", rows.where(held_out))):
        part.repartition(3).write.parquet((tmp_path / "data" / split).as_uri())
    manifest = prepare_parquet(PrepareParquetOptions(input=str(tmp_path / "data")), "prepare")
    assert len(manifest.splits["train"].shards) == 3
    verify(tmp_path / "data", VerifyOptions(deep=True))
    where = ["--data.dir", str(tmp_path / "data"), "--runs-dir", str(tmp_path / "runs")]
    folder = run(spark, [*OPTIONS, *where, "--max-steps", "3", "--name", "run"], 2)
    assert (folder / "result.json").exists()
