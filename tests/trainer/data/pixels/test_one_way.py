"""Every kind of image has the same pixels and probabilities, in whichever way it is used."""

import importlib.util
import sys
from collections import Counter
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pyarrow.parquet
import pytest
import tensorflow as tf

from tests import ROOT
from tests.trainer.support.data_sets.image_samples import samples, unusable
from tests.trainer.support.made_run import make_exported_run
from trainer.config import DataConfig
from trainer.data import images
from trainer.data.intake.names import Naming
from trainer.data.manifest import Split
from trainer.data.pixels.graph import reason_for_treatment, reasons_for_treatment
from trainer.data.pixels.treatment import MAX_PIXELS, encoding_of, open_image, treatment_needed
from trainer.data.prepare.encode import Rules, encode
from trainer.data.prepare.options import WriteOptions
from trainer.data.source import Source
from trainer.export.predict import classify_files, load_exported
from trainer.scoring.listing import write_images
from trainer.scoring.unit import Unit, score_unit
from trainer.tasks.serving import REFUSED

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning:PIL")

SAMPLES, UNUSABLE = samples(), unusable()
DOCUMENT = ROOT / "docs" / "reference" / "images.md"
BEGIN, END = "<!-- pixels: checked by a test -->\n", "<!-- end -->"
IN_PLACE = "in place"
WAYS = ("prepared", IN_PLACE, "predict", "score", "serve", "SavedModel")


def source(size, *, treated):
    split = Split((), (), ("JPEG", "PNG"), treated=treated)
    return Source(Path(), split, 10, size, DataConfig(), 0)


@pytest.fixture(scope="module")
def model(digits_folder, tmp_path_factory):
    """An exported model, and its answers to pixels."""
    run = make_exported_run(tmp_path_factory.mktemp("runs") / "run", digits_folder)
    exported = load_exported(run / "export" / "saved_model")
    serve, pixels = (exported.signatures[name] for name in ("serving_default", "pixels"))
    _, named = pixels.structured_input_signature
    size = named["pixels"].shape[1]

    def of_pixels(image):
        return np.sort(pixels(pixels=image[None])["probabilities"].numpy()[0])[::-1][:5]

    return SimpleNamespace(run=run, kept=exported, serve=serve, size=size, of_pixels=of_pixels)


@pytest.fixture(scope="module")
def script():
    """serving/score.py, with its server's modules replaced by names."""
    names = ("azureml_inference_server_http", "azureml_inference_server_http.api")
    request, response = (f"{names[1]}.aml_{name}" for name in ("request", "response"))
    with pytest.MonkeyPatch.context() as patch:
        for name in (*names, request, response, "flask"):
            patch.setitem(sys.modules, name, ModuleType(name))
        vars(sys.modules[request]).update(AMLRequest=object, rawhttp=lambda function: function)
        vars(sys.modules[response]).update(AMLResponse=object)
        patch.syspath_prepend(str(ROOT / "serving"))
        spec = importlib.util.spec_from_file_location("scoring_script", ROOT / "serving/score.py")
        module = importlib.util.module_from_spec(spec)
        patch.setitem(sys.modules, "scoring_script", module)
        spec.loader.exec_module(module)
        yield module


@pytest.fixture(scope="module")
def outcomes(model, script, tmp_path_factory):
    """By kind of image and way, "same", "other", or "refused"."""
    folder, output = (tmp_path_factory.mktemp(name) for name in ("images", "scores"))
    names = {kind: f"{number:03d}" for number, kind in enumerate(SAMPLES)}
    for kind, name in names.items():
        (folder / name).write_bytes(SAMPLES[kind].data)
    as_stored, as_treated = (source(model.size, treated=number) for number in (0, 1))
    evaluated = tf.function(
        lambda encoded: images.evaluation_image(encoded, as_stored),
        [tf.TensorSpec([], tf.string)],
        autograph=False,
    )
    in_place = tf.function(
        lambda encoded: images.evaluation_image(encoded, as_treated),
        [tf.TensorSpec([], tf.string)],
        autograph=False,
    )
    wanted = {
        kind: evaluated(encode(sample.data, sample.name, Rules(MAX_PIXELS)).data)
        for kind, sample in SAMPLES.items()
    }
    found = {kind: {"prepared": "same"} for kind in SAMPLES}

    def classify(encoded):
        outputs = model.serve(images=tf.constant(encoded, tf.string))
        return {name: output.numpy() for name, output in outputs.items()}

    def compare(kind, way, probabilities):
        same = np.allclose(probabilities, model.of_pixels(wanted[kind]), atol=1e-6)
        found[kind][way] = "same" if same else "other"

    for kind, sample in SAMPLES.items():
        try:
            same = np.array_equal(in_place(sample.data), wanted[kind])
            # Others are refused when the files are described.
            described = "same" if encoding_of(sample.data) else "refused"
            found[kind][IN_PLACE] = described if same else "other"
        except tf.errors.OpError:
            found[kind][IN_PLACE] = "refused"
        try:
            answers = model.serve(images=tf.constant([sample.data]))
            compare(kind, "SavedModel", answers["probabilities"].numpy()[0])
        except tf.errors.OpError:
            found[kind]["SavedModel"] = "refused"
        question = script.Question([script.treated(kind, sample.data)], [kind], "image")
        served = script.answer(classify, question)["classes"]
        compare(kind, "serve", [entry["probability"] for entry in served])
    paths = [folder / name for name in names.values()]
    for kind, (_, classes) in zip(SAMPLES, classify_files(model.serve, paths, {}), strict=True):
        compare(kind, "predict", [entry["probability"] for entry in classes])
    saved_model = model.run / "export" / "saved_model"
    listing = output / "listing.sqlite"
    count = write_images(listing, ((name, 0) for name in names.values()), Naming())
    unit = Unit(saved_model, folder, output, "parquet", "", 0, listing, 0, count, 5)
    score_unit(unit, lambda _: None)
    rows = {row["image"]: row for row in pyarrow.parquet.read_table(unit.path).to_pylist()}
    for kind, name in names.items():
        columns = ["probability", *(f"probability_{place}" for place in range(2, 6))]
        compare(kind, "score", [rows[name][column] for column in columns])
    return found


def test_an_image_has_the_pixels_of_the_evaluation_in_every_way_or_is_refused(outcomes):
    for kind, ways in outcomes.items():
        assert ways.keys() == set(WAYS)
        assert "other" not in ways.values(), (kind, ways)
        taken = {way: ways[way] for way in ("predict", "score", "serve")}
        assert set(taken.values()) == {"same"}, (kind, ways)
        assert (ways["SavedModel"] == "same") == SAMPLES[kind].kept, (kind, ways)
        whole = encoding_of(SAMPLES[kind].data) and kind != "PNG without its end"
        assert (ways[IN_PLACE] == "same") == bool(whole), (kind, ways)


def test_the_document_shows_what_becomes_of_each_kind(outcomes):
    rows = Counter(sample.treatment for sample in SAMPLES.values())
    lines = [
        "| `prepare` | tried | " + " | ".join(WAYS[1:]) + " |",
        "|---|--:|" + "---|" * (len(WAYS) - 1),
    ]
    for treatment, count in sorted(rows.items()):
        kinds = [kind for kind in SAMPLES if SAMPLES[kind].treatment == treatment]
        cells = ["/".join(sorted({outcomes[kind][way] for kind in kinds})) for way in WAYS[1:]]
        lines.append(f"| {treatment} | {count} | " + " | ".join(cells) + " |")
    table = "\n".join(lines) + "\n"
    shown = DOCUMENT.read_text(encoding="utf-8").partition(BEGIN)[2].partition(END)[0]
    assert shown == table, f"write into {DOCUMENT}:\n{table}"


def test_a_header_tells_a_graph_and_pillow_the_same():
    told = tf.function(reason_for_treatment, [tf.TensorSpec([], tf.string)], autograph=False)
    wanted = {}
    for kind, sample in SAMPLES.items():
        reason = told(sample.data).numpy()
        assert bool(reason) == bool(treatment_needed(sample.data, open_image(sample.data))), (
            kind,
            reason,
        )
        wanted[sample.data] = reason
    del wanted[SAMPLES["lossless JPEG"].data]
    found = tf.function(reasons_for_treatment, [tf.TensorSpec([None], tf.string)], autograph=False)
    assert found([*wanted]).numpy().tolist() == [*wanted.values()]
    assert b"50,000,000 pixels" in told(UNUSABLE["a bomb"][1]).numpy()


def test_a_refused_batch_is_refused_with_the_places_and_the_reasons(model):
    kinds = ("JPEG", "JPEG of orientation 6", "PNG", "PNG with transparency", "GIF")
    with pytest.raises(tf.errors.InvalidArgumentError) as caught:
        model.serve(images=tf.constant([SAMPLES[kind].data for kind in kinds]))
    said = caught.value.message
    assert f"{REFUSED}, number, positions from 0 and reasons:] [3] [1 3 4]" in said
    for reason in ("turned by its EXIF orientation", "transparent", "neither JPEG nor PNG"):
        assert reason in said


def test_an_unusable_file_is_refused_by_the_server_with_a_status(script):
    found = {}
    for kind, (name, data, reason) in UNUSABLE.items():
        if reason.startswith("holds a"):
            # Its name alone is wrong, which a request need not have.
            assert script.treated(name, data) == data
            continue
        with pytest.raises(script.RefusedError, match=rf"{name}: (is|has|cannot)") as caught:
            script.treated(name, data)
        found[kind] = caught.value.status
    assert found["nothing"] == 400
    assert found["a text"] == found["a page"] == 415
    assert found["a bomb"] == found["an absurd size"] == found["an absurd animation"] == 413
    assert set(Counter(found.values()) - Counter([400, 415, 415, 413, 413, 413])) == {422}


def test_there_is_one_limit_of_pixels(script):
    assert WriteOptions().max_pixels == script.MAX_PIXELS == MAX_PIXELS
