"""Images of every depth have the same pixels, in whichever way they come in and are used."""

import contextlib
import io
import json
import re
import sys
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from tests import ROOT
from tests.trainer.data.intake.test_levels import png, tiff
from tests.trainer.data.pixels.test_one_way import script as script  # noqa: PLC0414 - a fixture
from tests.trainer.support.data_sets.image_files import saved
from tests.trainer.support.data_sets.image_folders import prepare, records
from tests.trainer.support.data_sets.parquet_files import table, write_file
from tests.trainer.support.data_sets.records import write_records
from tests.trainer.support.made_run import make_run
from tests.trainer.support.scenarios import tiny_config
from tests.trainer.support.small_model import small_model
from trainer.data import images
from trainer.data.data_set import load_data_set
from trainer.data.intake.names import Naming
from trainer.data.pixels import treatment
from trainer.data.prepare.foreign.tfrecords import prepare_tfrecords
from trainer.data.prepare.options import PrepareTfrecordsOptions
from trainer.data.rank_data import RankData
from trainer.distributed.communicator import Alone
from trainer.errors import DataError
from trainer.export.exporter import export_run
from trainer.export.layout import export_facts
from trainer.export.options import ExportOptions
from trainer.export.predict import classify_files, load_exported
from trainer.extras.parquet.describe import prepare_parquet
from trainer.extras.parquet.options import PrepareParquetOptions
from trainer.scoring.listing import write_images
from trainer.scoring.unit import Unit, score_unit
from trainer.training.setup import set_up

DOCUMENT = ROOT / "docs" / "reference" / "images.md"
PAGE = ROOT / "docs" / "export.md"
BEGIN, END = "<!-- depths: checked by a test -->\n", "<!-- end -->"
WAYS = (
    *("Parquet in place", "TFRecords in place", "predict", "score", "serve"),
    *("`treatment_of`", "ONNX", "SavedModel alone"),
)
NUMBER = 8


def noise(seed, most, bands=()):
    values = np.random.default_rng(seed).integers(0, most + 1, (20, 26, *bands))
    return values.astype(np.uint16 if most > 255 else np.uint8)


def photograph(seed):
    """A JPEG with stripes of a pixel, which a bilinear resize without averaging shows otherwise."""
    stripes = np.zeros((90, 120, 3), np.uint8)
    stripes[:, :: 2 + seed % 3] = 255
    stripes[::5, :, seed % 3] = 128
    return saved(stripes, "JPEG")


def small_fractions(seed):
    values = (noise(seed, 4095) / 13_650).astype(np.float32)
    values[0, :2] = np.nan, np.inf
    return saved(values, "TIFF")


DEPTHS = {
    "8 bits": (".png", {}, lambda n: saved(noise(n, 255, (3,)), "PNG")),
    "8 bits, `--reencode 20:90`": (".jpg", {"reencode": "20:90"}, photograph),
    "12 bits, grey": (".png", {}, lambda n: png(noise(n, 4095))),
    "12 bits, colour": (".png", {}, lambda n: png(noise(n, 4095, (3,)))),
    "12 bits, grey with opacity": (".png", {}, lambda n: png(noise(n, 4095, (2,)))),
    "12 and 16 bits, `--levels bits`": (
        ".png", {"levels": "bits"}, lambda n: png(noise(n, 65_535 >> n % 2 * 4)),
    ),
    "16 bits, grey": (".png", {}, lambda n: png(noise(n, 65_535))),
    "16 bits, TIFF": (".tif", {}, lambda n: saved(noise(n, 4095), "TIFF")),
    "fractions, TIFF": (
        ".tif", {}, lambda n: saved((noise(n, 4095) / 64 - 9).astype(np.float32), "TIFF"),
    ),
    "fractions to 0.3, TIFF": (".tif", {}, small_fractions),
    "fractions to 0.3, TIFF, `--levels bits`": (".tif", {"levels": "bits"}, small_fractions),
    "32 bits, TIFF": (".tif", {}, lambda n: tiff(noise(n, 65_535).astype(np.uint32) * 65_000)),
}  # fmt: skip


def blocks(heading):
    """The Python code of a section of the page."""
    section = PAGE.read_text(encoding="utf-8").partition(f"## {heading}\n")[2]
    return re.findall(r"```python\n(.*?)```", section.partition("\n## ")[0], re.DOTALL)


def pixels(data):
    return np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))


def config_of(folder):
    config = tiny_config(str(folder), name="run", batch_size=4)
    return replace(config, data=replace(config.data, eval_crop=0.8))


@pytest.fixture(scope="module")
def export(tmp_path_factory):
    """An exported model, also as ONNX."""
    root = tmp_path_factory.mktemp("model")
    for number in range(NUMBER):
        path = root / "in" / "ab"[number % 2] / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(saved(noise(number, 255, (3,)), "PNG"))
    prepare(root / "in", root / "data")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("trainer.model.weights.build_model", small_model)
        make_run(root / "run", config_of(root / "data"))
        export_run(ExportOptions(run=str(root / "run"), onnx=True))
    return root / "run" / "export"


class Known:
    """A data set of a depth, its model, and the expected images."""

    def __init__(self, root, suffix, options, make, export, model):
        self.source, self.data = root / "in", root / "data"
        self.files = {}
        for number in range(NUMBER):
            name = f"{'ab'[number % 2]}/{number // 2}{suffix}"
            (self.source / name).parent.mkdir(parents=True, exist_ok=True)
            self.files[name] = make(number)
            (self.source / name).write_bytes(self.files[name])
        prepare(self.source, self.data, **options)
        self.stored = {
            split: {record.filename: record for record in records(self.data, split)}
            for split in ("train", "validation")
        }
        self.encoded = {n: r.encoded for of in self.stored.values() for n, r in of.items()}
        # The export of a run on these images: the model is the same, its facts are their own.
        self.export = root / "export"
        self.export.mkdir()
        for name in ("saved_model", "model.onnx"):
            (self.export / name).symlink_to(export / name)
        record = set_up(config_of(self.data), 1, "run").record
        facts = {**export_facts(export / "saved_model"), **record.treatment}
        (self.export / "export.json").write_text(json.dumps(facts))
        self.facts = export_facts(self.export / "saved_model")
        self.serve = model.signatures["serving_default"]
        self.wanted = {name: self.answer(data) for name, data in self.encoded.items()}

    def answer(self, encoded):
        return self.serve(images=tf.constant([encoded]))["probabilities"].numpy()[0]

    def originals(self, split):
        """The records of a split with the images as they were before `prepare`."""
        return [
            replace(record, encoded=self.files[name], format="", height=0, width=0)
            for name, record in self.stored[split].items()
        ]

    def compare(self, found, wanted, tolerance=0.0):
        assert found.keys() == wanted.keys()
        return all(np.allclose(found[n], wanted[n], rtol=0, atol=tolerance) for n in wanted)


def read_by_a_run(folder):
    """The held-out images of a data set as a run reads them."""
    config = tiny_config(str(folder), name="run", batch_size=4)
    data = RankData(config, load_data_set(config), Alone(), 1)
    found = [data.validation_example(place)[0] for place in data.validation_share]
    # Parquet in place has no names.
    return dict(enumerate(sorted(found, key=lambda image: image.tobytes())))


def as_word(find):
    """Return "same" or "other", or "refused" if nothing is found."""
    try:
        return "same" if find() else "other"
    except (DataError, tf.errors.OpError):
        return "refused"


def in_place_parquet(known, root, options):
    for split in known.stored:
        write_file(root / "p" / f"{split}.parquet", table(known.originals(split), ("a", "b")))
    chosen = {"levels": options.get("levels", "auto")}
    prepare_parquet(PrepareParquetOptions(input=str(root / "p"), processes=1, **chosen), "x")
    return known.compare(read_by_a_run(root / "p"), read_by_a_run(known.data))


def in_place_tfrecords(known, root, options):
    folder = root / "t"
    write_records(folder, known.originals("train"), known.originals("validation"), ("a", "b"))
    (folder / "manifest.json").unlink()
    chosen = {"levels": options.get("levels", "auto")}
    prepare_tfrecords(PrepareTfrecordsOptions(input=str(folder), processes=1, **chosen), "x")
    return known.compare(read_by_a_run(folder), read_by_a_run(known.data))


def predicted(known, root, options):
    del root, options
    paths = [known.source / name for name in known.files]
    answers = zip(known.files, classify_files(known.serve, paths, known.facts), strict=True)
    found = {name: [one["probability"] for one in classes] for name, (_, classes) in answers}
    return known.compare(found, known.wanted, 1e-6)


def scored(known, root, options):
    del options
    names, listing = sorted(known.files), root / "listing.sqlite"
    count = write_images(listing, ((name, 0) for name in names), Naming())
    model, output = known.export / "saved_model", root / "scores"
    unit = Unit(model, known.source, output, "parquet", "", 0, listing, 0, count, 2)
    unit.path.parent.mkdir(parents=True)
    score_unit(unit, lambda _: None)
    import pyarrow.parquet

    rows = pyarrow.parquet.read_table(unit.path).to_pylist()
    found = {n: [r["probability"], r["probability_2"]] for n, r in zip(names, rows, strict=True)}
    return known.compare(found, known.wanted, 1e-6)


def served(script):
    def found(known, root, options):
        del root, options
        model = SimpleNamespace(treatment=treatment.treatment_of(known.facts))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(script, "_model", model)
            return all(
                script.treated(name, data) == known.encoded[name]
                for name, data in known.files.items()
            )

    return found


def executed(code, known, name):
    """Run the code of the page for an image; return its variables."""
    code = code.replace("runs/digits/export", str(known.export))
    code = re.sub(r'"(scan|digit)\.png"', repr(str(known.source / name)), code)
    scope = {"serve": known.serve, "tf": tf}
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(io.StringIO()):
        patch.setitem(sys.modules, "treatment", treatment)
        exec(code, scope)
    return scope


def recipe(known, root, options):
    del root, options
    (code,) = blocks("Which images")
    return all(executed(code, known, name)["image"] == known.encoded[name] for name in known.files)


def onnx(known, root, options):
    del root, options
    (code,) = blocks("ONNX")
    size, crop = known.facts["image_size"], known.facts["eval_crop"]
    same = True
    for name in list(known.files)[:3]:
        scope = executed(code, known, name)
        wanted = images.central_image(tf.constant(known.encoded[name]), size, crop).numpy()
        # Pillow truncates where TensorFlow rounds, and decodes JPEGs by another transform.
        most = 12 if known.encoded[name][:2] == b"\xff\xd8" else 1
        same &= np.abs(np.asarray(scope["image"]) - wanted.astype(int)).max() <= most
        same &= np.isclose(scope["probabilities"].sum(), 1, atol=1e-5)
    return same


def alone(known, root, options):
    del root, options
    return known.compare({n: known.answer(d) for n, d in known.files.items()}, known.wanted)


@pytest.fixture(scope="module")
def outcomes(script, export, tmp_path_factory):
    """By depth and way, "same", "other" or "refused"."""
    ways = (in_place_parquet, in_place_tfrecords, predicted, scored,
            served(script), recipe, onnx, alone)  # fmt: skip
    # All depths have one model, and facts of their own.
    model = load_exported(export / "saved_model")
    found = {}
    for depth, (suffix, options, make) in DEPTHS.items():
        root = tmp_path_factory.mktemp("depth")
        known = Known(root, suffix, options, make, export, model)
        found[depth] = {
            name: as_word(lambda way=way, known=known, root=root, options=options: way(
                known, root, options))
            for name, way in zip(WAYS, ways, strict=True)
        }  # fmt: skip
    return found


@pytest.mark.long
def test_images_of_every_depth_have_the_pixels_of_their_records_or_are_refused(outcomes):
    for depth, ways in outcomes.items():
        needed = {name: ways[name] for name in WAYS[2:-1]}
        assert set(needed.values()) == {"same"}, (depth, ways)
        shrunk = "reencode" in depth
        assert {ways[name] for name in WAYS[:2]} == {
            "refused" if "TIFF" in depth else "other" if shrunk else "same"
        }, (depth, ways)
        plain = {"8 bits": "same"}.get(depth, "other" if shrunk else "refused")
        assert ways["SavedModel alone"] == plain, (depth, ways)


@pytest.mark.long
def test_the_page_shows_what_was_compared(outcomes):
    lines = ["| images | " + " | ".join(WAYS) + " |", "|---|" + "---|" * len(WAYS)]
    lines += [
        f"| {depth} | " + " | ".join(ways.values()) + " |" for depth, ways in outcomes.items()
    ]
    shown = "\n".join(lines) + "\n"
    text = DOCUMENT.read_text(encoding="utf-8").partition(BEGIN)[2].partition(END)[0]
    assert text == shown, f"write into {DOCUMENT}:\n{shown}"
