"""The run report: its inputs, and its contents."""

import base64
import csv
import io
import json
import re
import shutil
from collections import Counter
from dataclasses import replace

import pytest
from PIL import Image

from common.program import load
from tests import ROOT
from tests.trainer.support.command import run_without_tensorflow
from tests.trainer.support.reader import Reader, loaded
from tests.trainer.support.written_run import (
    HOSTILE,
    SECONDS,
    change_result,
    picture,
    write_metrics,
    write_run,
)
from trainer.cli import main
from trainer.errors import CheckpointError
from trainer.leaves import TASKS
from trainer.loggers.metrics_file import MetricsFile
from trainer.presets import PRESETS
from trainer.report.curves import plot_comparison, plot_run
from trainer.report.run_data import POINTS, Curve, read_run
from trainer.report.write import write_report
from trainer.tasks.classification.report import read_predictions
from trainer.tasks.classification.trust import wilson, wilson_of_groups

STYLE = (ROOT / "common" / "page" / "templates" / "style.css").read_text()
"""The look of all pages."""


@pytest.fixture
def run(tmp_path):
    return write_run(tmp_path / "run", wrong=[(3, 5), (3, 5), (8, 1)])


def page_of(folder):
    return write_report([folder]).read_text()


def test_a_page_with_images_says_so_on_top(run):
    assert "This page contains 3 copies of images" in Reader(page_of(run)).text
    shutil.rmtree(run / "mistakes")
    assert "This page contains" not in page_of(run)


# 1. Inputs.


def test_the_result_of_a_finished_run_is_its_summary(run):
    read = read_run(run)
    assert read.state == "finished"
    summary = read.summary
    assert (summary.final, summary.step, summary.examples) == (True, 100, 40)
    assert summary.metrics["top1"] == pytest.approx(37 / 40)
    assert (summary.images_per_second, summary.seconds) == (640.0, 34.5)
    assert summary.phases == SECONDS
    assert read.problems == ()


def test_attempts_and_checkpoints_are_where_they_happened(run):
    read = read_run(run)
    assert [(a.number, a.step, a.ranks) for a in read.attempts] == [(1, 0, 2), (2, 60, 2)]
    assert read.checkpoints == (20, 40, 60, 80, 100)


def test_a_checkpoint_is_known_also_by_the_attempt_that_continued_from_it(run):
    lines = (run / "metrics.jsonl").read_text().splitlines()
    kept = [line for line in lines if '"checkpoint", "step": 60' not in line]
    assert len(kept) == len(lines) - 1
    (run / "metrics.jsonl").write_text("\n".join(kept) + "\n")
    assert 60 in read_run(run).checkpoints


def test_a_run_that_lost_steps_shows_each_step_once(tmp_path):
    run = write_run(tmp_path / "run")
    write_metrics(run)
    MetricsFile(run / "metrics.jsonl").rewind(40)
    with (run / "metrics.jsonl").open("a") as file:
        file.write(json.dumps({"event": "start", "step": 40, "attempt": 3}) + "\n")
        file.write(json.dumps({"event": "train", "step": 45, "loss": 1.0}) + "\n")
    read = read_run(run)
    assert read.curve("train", "loss").steps == (*range(5, 45, 5), 45)
    assert [attempt.step for attempt in read.attempts] == [0, 60, 40]
    assert read.state == "unfinished"
    starts = [label for _, label in plot_run(read)[0].starts]
    assert starts == ["attempt 3", "attempt 2"]


def test_half_a_line_and_lines_of_something_else_are_passed_over(run):
    text = (run / "metrics.jsonl").read_text()
    strange = '[]\n7\nnull\n{"event": 3, "step": 1}\n{"event": "train", "step": "x"}\n'
    (run / "metrics.jsonl").write_text(strange + text + '{"event": "train", "st')
    assert read_run(run).summary == read_run(run).summary
    assert read_run(run).state == "finished"


@pytest.mark.parametrize("value", ["NaN", "Infinity", '"high"', "true", "[1]", "null", "1e999"])
def test_a_figure_that_is_no_number_is_no_point(tmp_path, value):
    run = write_run(tmp_path / "run")
    (run / "metrics.jsonl").write_text(f'{{"event": "train", "step": 5, "loss": {value}}}\n')
    assert read_run(run).curve("train", "loss").steps == ()
    assert "No curves" in page_of(run)


def test_a_long_curve_is_averaged_and_keeps_its_mean_and_end():
    steps = tuple(range(1, 4 * POINTS + 3))
    curve = Curve(steps, (1.0,) * len(steps), tuple(float(step % 7) for step in steps))
    thin = curve.thinned()
    assert len(thin.steps) <= POINTS
    assert thin.steps[-1] == steps[-1]
    assert sum(thin.values) / len(thin.values) == pytest.approx(3.0, abs=0.01)
    assert Curve(steps[:POINTS], steps[:POINTS], steps[:POINTS]).thinned().steps == steps[:POINTS]


def test_a_folder_that_is_no_run_is_refused(tmp_path):
    with pytest.raises(CheckpointError, match="is not a run folder"):
        write_report([tmp_path])
    with pytest.raises(CheckpointError, match="is not a run folder"):
        write_report([tmp_path / "none"])


# 2. Notes on missing files.


@pytest.mark.parametrize(
    ("file", "says"),
    [
        ("config.json", "The configuration cannot be read"),
        ("metrics.jsonl", "No curves"),
        ("result.json", "Not finished"),
        ("predictions.csv", "No predictions"),
    ],
)
def test_a_missing_file_is_a_sentence(run, file, says):
    (run / file).unlink()
    assert says in Reader(page_of(run)).text


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"null", b"\xff\xfe\x00", b'{"config": 3}'])
@pytest.mark.parametrize("file", ["config.json", "metrics.jsonl", "result.json", "predictions.csv"])
def test_a_damaged_file_is_no_failure(run, file, content):
    (run / file).write_bytes(content)
    assert Reader(page_of(run)).headings


def test_a_configuration_of_another_version_is_named(tmp_path):
    run = write_run(tmp_path / "run", velocity=3)
    assert "config.json was written by another version: velocity" in Reader(page_of(run)).text


def test_a_stopped_run_shows_how_far_it_came(run):
    (run / "result.json").unlink()
    write_metrics(run, stops_at=200)
    with (run / "metrics.jsonl").open("a") as file:
        file.write(json.dumps({"event": "stop", "step": 100}) + "\n")
    text = Reader(page_of(run)).text
    assert "Stopped after step 100; it can be continued." in text
    assert "held-out top-1 so far 95.24%" in text
    assert "time so far 35.0 s" in text


def test_a_run_that_goes_on_shows_its_newest_figures(run):
    write_metrics(run, ends_at=40)
    read = read_run(run)
    assert (read.summary.final, read.summary.step) == (False, 40)
    assert read.summary.metrics["top1"] == pytest.approx(40 / 105)
    text = Reader(page_of(run)).text
    assert "its last record is of 2023-11-14 22:14 UTC" in text
    assert "No predictions" in text


def test_a_run_without_held_out_images_says_so(run):
    lines = (run / "metrics.jsonl").read_text().splitlines(keepends=True)
    rest = [line for line in lines if '"train"' in line[:20] or '"start"' in line[:20]]
    (run / "metrics.jsonl").write_text("".join(rest))
    assert "No evaluation" in Reader(page_of(run)).text


def test_images_that_could_not_be_read_are_named(tmp_path):
    run = write_run(tmp_path / "run", wrong=[(1, 2)], images=False)
    text = (run / "metrics.jsonl").read_text()
    noted = text.replace('"images": 1', '"images": 0, "problem": "shard 3 is gone"')
    (run / "metrics.jsonl").write_text(noted)
    text = Reader(page_of(run)).text
    assert "Images are missing: shard 3 is gone." in text
    assert "image 39 was not kept" in text


# 3. Contents.


def test_counts_of_the_confusion_matrix_are_those_of_the_predictions(run):
    outcome = read_predictions(read_run(run))
    with (run / "predictions.csv").open() as file:
        rows = [(int(row["label"]), int(row["predicted"])) for row in csv.DictReader(file)]
    assert outcome.counts == Counter(rows)
    assert (outcome.examples, outcome.wrong) == (40, 3)
    assert outcome.most_confused(5) == [(3, 5, 2), (8, 1, 1)]
    assert outcome.weakest(2) == [3, 8]
    assert outcome.accuracy(3) == pytest.approx(4 / 6)

    matrix = page_of(run).split("Confusion matrix")[-1].split("</table>")[0]
    cells = [re.findall(r"<td.*?>(\d+)</span></td>", row) for row in matrix.split("<tr>")[2:]]
    shown = [[int(cell) for cell in row] for row in cells]
    assert shown == [[outcome.counts.get((a, b), 0) for b in range(10)] for a in range(10)]


def test_the_images_shown_are_those_of_the_mistakes_the_surest_first(run):
    images = Reader(page_of(run)).all("img")
    assert [image["alt"] for image in images] == [
        "Image 39: 8, predicted as 1",
        "Image 38: 3, predicted as 5",
        "Image 37: 3, predicted as 5",
    ]
    for image, index in zip(images, (39, 38, 37), strict=True):
        data = base64.b64decode(image["src"].removeprefix("data:image/png;base64,"))
        with Image.open(io.BytesIO(data)) as shown:
            assert shown.tobytes() == picture(index).tobytes()


def test_a_run_without_mistakes_says_so(tmp_path):
    text = Reader(page_of(write_run(tmp_path / "run"))).text
    assert "None: all predictions for 40 held-out images are correct." in text


def test_many_classes_and_mistakes_keep_the_page_small(tmp_path):
    names = [f"class {number}" for number in range(400)]
    wrong = [(n % 400, (n + 1) % 400) for n in range(500)]
    run = write_run(tmp_path / "run", names=names, wrong=wrong, examples=3000)
    page = page_of(run)
    assert len(page) < 200_000
    assert "The 20 most common confusions" in page
    assert "The 30 with the lowest recall; classes.csv has all 400" in page
    assert page.count("<img") == 24


def test_answers_on_classes_come_first_and_speed_last(run):
    page = page_of(run)
    ids = re.findall(r'<h2 id="(\w+)"', page)
    assert ids[:4] == ["classes", "confusion", "mistakes", "trust"]
    assert ids[-2:] == ["environment", "speed"]
    assert page.index("Throughput") > page.index("Learning rate")


@pytest.mark.parametrize("name", sorted(TASKS.keys() - {"classification"}))
def test_the_report_of_each_other_task_begins_with_its_classes_too(run, name):
    titles = [section.title for section in load(TASKS[name].report)(read_run(run))]
    assert titles[:2] == ["How well each class is found", "The worst images"]


def test_each_class_has_its_recall_precision_and_area(run):
    (run / "classes.csv").write_text("class,recall,precision,auc\n3,0.6,1.0,0.875\n1,1,1,\n")
    table = page_of(run).split('<h2 id="classes"')[1].split("</table>")[0]
    rows = [re.sub(r"<.*?>|\s+", " ", row).split() for row in table.split("<tr>")[2:]]
    assert rows[3] == ["3", "66.67%", "100.00%", "87.50%", "6", "4"]
    assert rows[1][:3] == ["1", "100.00%", "80.00%"]
    assert rows[5][:3] == ["5", "100.00%", "66.67%"]


def test_baselines_and_doubts_stand_on_top(run):
    doubts = ["Never predicted, 1 of 10 classes: <7>.", "Overfitted by 22 points."]
    change_result(run, baseline={"top1": 0.7081}, balanced_accuracy=0.5, warnings=doubts)
    text = Reader(page_of(run)).text
    assert "held-out top-1 92.50% of 40 images; largest class 70.81%" in text
    assert "held-out balanced accuracy 50.00%" in text
    for doubt in doubts:
        assert f"Warning {doubt}" in text
    assert text.index("Warning") < text.index("held-out top-1")


def test_the_interval_is_for_the_true_accuracy_and_of_groups_where_there_are_some(run):
    text = Reader(page_of(run)).text
    low, high = wilson(37, 40)
    assert (
        f"true accuracy on images drawn in the same way lies between {low:.2%} and {high:.2%}"
        in text
    )
    assert "for every image would be right for 17.50%" not in text
    assert "Another sample" not in text
    with (run / "predictions.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    with (run / "predictions.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, [*rows[0], "group"])
        writer.writeheader()
        writer.writerows({**row, "group": place // 10} for place, row in enumerate(rows))
    text = Reader(page_of(run)).text
    low, high = wilson_of_groups([(10, 10), (10, 10), (10, 10), (7, 10)])
    assert f"lies between {low:.2%} and {high:.2%}. They come in 4 groups" in text


def test_metrics_that_a_run_lacks_are_not_explained(run):
    explained = "Top-5: the fraction whose class is among the five most probable."
    assert explained in Reader(page_of(run)).text
    path = run / "metrics.jsonl"
    path.write_text(path.read_text().replace('"top5"', '"other"'))
    text = Reader(page_of(run)).text
    assert "Fraction of images whose class is the most probable (top-1)." in text
    assert "Top-5" not in text
    assert "Balanced accuracy: " not in text


def test_losses_that_are_compared_are_one_quantity(run):
    plots = {plot.title: [line.name for line in plot.lines] for plot in plot_run(read_run(run))}
    # A run of before has no training loss without smoothing.
    assert (plots["Loss"], plots["Objective"]) == (["held-out"], ["objective"])
    text = (run / "metrics.jsonl").read_text()
    (run / "metrics.jsonl").write_text(
        re.sub(r'"loss": ([0-9.]+)', r'"loss": \1, "training_loss": 1', text)
    )
    plots = {plot.title: [line.name for line in plot.lines] for plot in plot_run(read_run(run))}
    assert (plots["Loss"], plots["Objective"]) == (["training", "held-out"], ["objective"])
    (run / "metrics.jsonl").write_text(
        re.sub(r'"loss": ([0-9.]+)', r'"loss": \1, "training_loss": \1', text)
    )
    assert "Objective" not in [plot.title for plot in plot_run(read_run(run))]


def test_the_options_that_differ_from_the_preset_come_first(tmp_path):
    page = page_of(write_run(tmp_path / "run", epochs=7, seed=3))
    first = page.split("Options that differ from the preset")[-1].split("</table>")[0]
    assert re.findall(r"<code>(\S+)</code>", first) == ["epochs", "seed"]
    assert "--epochs 7 --seed 3" in page
    assert "<code>optimizer.momentum</code>" in page


def test_the_environment_of_every_attempt_is_shown(run):
    table = page_of(run).split("Environment of each attempt")[-1].split("</table>")[0]
    assert table.count("abacus") == 2
    assert table.count("0.50, 1.25") == 2


# 4. Nothing from a file is taken for markup.


def test_hostile_names_are_texts(tmp_path):
    names = [HOSTILE, "b", "c"]
    folder = tmp_path / "<img src=x onerror=alert(2)>"
    run = write_run(folder, names=names, wrong=[(0, 1), (1, 0)], runs_dir=HOSTILE)
    with (run / "metrics.jsonl").open("a") as file:
        values = {"attempt": 3, "environment": {HOSTILE: HOSTILE}, "ranks": HOSTILE}
        file.write(json.dumps({"event": "start", "step": 7, **values}) + "\n")
    other = write_run(tmp_path / "a" / "<b onclick=x>")
    both = write_report([run, other], tmp_path / "both.html").read_text()
    for page in (page_of(run), both):
        reader = Reader(page)
        assert folder.name in reader.text
        assert len(reader.all("script")) == 1
        assert not reader.all("b")
        assert all("onerror" not in attrs for _, attrs in reader.elements)
        assert all(image["src"].startswith("data:image/") for image in reader.all("img"))
    assert HOSTILE in Reader(page_of(run)).text


def test_a_page_loads_nothing(run):
    assert loaded(page_of(run)) == []
    assert "url(" not in STYLE


# 5. A page that everyone can read.


def test_headings_are_in_order_and_pictures_have_texts(run):
    reader = Reader(page_of(run))
    assert reader.headings[0] == 1
    assert reader.headings.count(1) == 1
    for before, after in zip(reader.headings, reader.headings[1:], strict=False):
        assert after <= before + 1
    assert all(image["alt"] for image in reader.all("img"))
    plots = [attrs["aria-label"] for attrs in reader.all("svg") if "aria-label" in attrs]
    assert ["at step" in label for label in plots] == [False] + [True] * 7
    assert "Probability and accuracy" in plots[0]
    assert [plot.split(";")[0] for plot in plots[-2:]] == ["Throughput", "Data wait"]
    assert reader.all("html")[0]["lang"] == "en"


def luminance(colour):
    """Relative luminance of #rrggbb (WCAG 2)."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.03928 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one, other):
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def mixed(under, over, part):
    """The colour of `r g b` laid over #rrggbb with some opacity."""
    below = [int(under[at : at + 2], 16) for at in (1, 3, 5)]
    above = [int(value) for value in over.split()]
    return "#" + "".join(
        f"{round(a * part + b * (1 - part)):02x}" for a, b in zip(above, below, strict=True)
    )


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_texts_and_curves_stand_out_from_what_is_behind_them(scheme):
    blocks = re.findall(r":root \{(.*?)\}", STYLE, re.DOTALL)
    assert len(blocks) == 2
    # The dark scheme keeps a colour that it does not change.
    own = "".join(blocks if scheme == "dark" else blocks[:1])
    colours = dict(re.findall(r"--([a-z0-9-]+): ([^;]+);", own))
    for behind in (colours["page"], colours["surface"]):
        for name in ("ink", "muted", "accent", "good", "warning", "bad"):
            assert contrast(colours[name], behind) >= 4.5, (name, behind)
        for number in range(1, 9):
            assert contrast(colours[f"series-{number}"], behind) >= 3, number
    for name in ("hit", "miss"):
        strongest = re.search(rf"--{name}\) / calc\(var\(--part\) \* ([\d.]+)\)", STYLE)[1]
        behind = mixed(colours["surface"], colours[name], float(strongest))
        assert contrast(colours["ink"], behind) >= 4.5, name


# 6. Several runs.


def test_a_comparison_shows_best_results_and_options_that_differ(tmp_path):
    good = write_run(tmp_path / "good", epochs=5)
    bad = write_run(tmp_path / "bad", wrong=[(1, 2)] * 4, epochs=5, seed=9)
    page = write_report([good, bad]).read_text()
    rows = re.findall(r"<tr><th scope=\"row\">.*?</tr>", page)
    assert re.findall(r'class="best".*?<span>(.*?)</span>', rows[0])[0] == "100.00%"
    assert "<td>90.00%</td>" in rows[1]
    differing = page.split("As each run was first started")[-1].split("</table>")[0]
    assert re.findall(r"<code>(\S+)</code>", differing) == ["seed"]
    assert "the highest accuracy" in page
    plots = {plot.title: plot for plot in plot_comparison([read_run(good), read_run(bad)], "ab")}
    colours = [(line.name, line.colour) for line in plots["Accuracy"].lines]
    assert colours == [("a", 1), ("a", 1), ("b", 2), ("b", 2)]


def cells_of(page):
    """The texts of the rows of the results, by run and by head."""
    table = page.split("The best finished run is bold")[-1].split("</table>")[0]
    heads = re.findall(r"<th scope=\"col\"><span>(.*?)</span>", table)
    rows = [re.findall(r"<(?:th|td)[ >].*?</t[hd]>", row) for row in table.split("<tr>")[2:]]
    texts = [[re.sub("<.*?>", "", cell) for cell in row] for row in rows]
    return {row[0]: dict(zip(heads, row, strict=True)) for row in texts}


def test_all_figures_of_a_run_are_those_of_one_step_with_the_baseline_beside(tmp_path):
    best, last = (write_run(tmp_path / name) for name in ("best", "last"))
    # The evaluation after step 40, which a run of an earlier version names as its best.
    early = {"early_stop": {"patience": 2}, "checkpoint": {"keep_best": True}}
    stored = json.loads((best / "config.json").read_text())
    for group, values in early.items():
        stored["config"][group] = stored["config"].get(group, {}) | values
    (best / "config.json").write_text(json.dumps(stored))
    change_result(best, best={"step": 40, "top1": 0.38})
    change_result(last, baseline={"top1": 0.7}, evaluated_step=60, warnings=["Doubtful."])
    page = write_report([best, last]).read_text()
    cells = cells_of(page)
    assert cells["best"]["held-out loss"] == f"{2 - 40 / 60:.4f}"
    assert cells["last"]["held-out loss"] == f"{2 - 60 / 60:.4f}"
    assert cells["last"]["top-1, largest class"] == "70.00%"
    assert "last: Doubtful." in Reader(page).text


def test_runs_on_different_data_sets_are_named_and_none_has_the_best_held_out_figure(tmp_path):
    one, other = (write_run(tmp_path / name) for name in ("one", "other"))
    assert "different data sets" not in write_report([one, other]).read_text()
    stored = json.loads((other / "config.json").read_text())
    (other / "config.json").write_text(json.dumps(stored | {"data_version": "def"}))
    change_result(one, top1=0.5, images_per_second=1.0)
    page = write_report([one, other]).read_text()
    assert "(one: abc; other: def)" in Reader(page).text
    best = re.findall(r'class="best".*?<span>(.*?)</span>', page)
    assert "640.0" in best
    assert not [text for text in best if "%" in text]


def test_a_run_that_is_not_finished_is_never_the_best(tmp_path):
    done = write_run(tmp_path / "done", wrong=[(1, 2)] * 20)
    running = write_run(tmp_path / "running")
    write_metrics(running)
    page = write_report([done, running]).read_text()
    assert "running (unfinished: so far)" in page
    assert 'class="best"' not in page


def test_runs_of_one_name_are_told_apart(tmp_path):
    runs = [write_run(tmp_path / name / "run") for name in "ab"]
    text = Reader(write_report(runs, tmp_path / "both.html").read_text()).text
    assert str(runs[0]) in text
    assert str(runs[1]) in text


def test_many_runs_of_different_kinds_can_be_compared(tmp_path):
    runs = [write_run(tmp_path / f"run-{number}") for number in range(20)]
    for number, name in enumerate(("config.json", "metrics.jsonl", "result.json")):
        (runs[number] / name).unlink()
    page = write_report(runs).read_text()
    assert "The configuration of run-0 cannot be read" in page
    plots = plot_comparison([read_run(run) for run in runs], [run.name for run in runs])
    rate = next(plot for plot in plots if plot.title == "Learning rate")
    lines = [(line.colour, line.series.dashes) for line in rate.lines]
    assert len(set(lines)) == len(lines) == 19


def test_an_estimated_cost_is_shown_of_the_runs_that_have_one(tmp_path):
    runs = [write_run(tmp_path / name) for name in ("dear", "cheap", "unknown")]
    for run, amount in zip(runs, (1234.5, 0.0123), strict=False):
        (run / "cost.json").write_text(json.dumps({"amount": amount, "currency": "USD"}))
    both = Reader(write_report(runs).read_text()).text
    assert "1,234.50 USD" in both
    assert "0.0123 USD" in both
    assert "1,234.50 USD" in Reader(page_of(runs[0])).text
    assert "estimated cost" not in Reader(page_of(runs[2])).text
    (runs[0] / "cost.json").write_text('{"amount": "all"}')
    assert "estimated cost" not in Reader(page_of(runs[0])).text


def test_pages_are_written_where_they_are_expected_and_whole(tmp_path, run):
    other = write_run(tmp_path / "other")
    (tmp_path / "latest").symlink_to("run")
    assert write_report([run]) == run / "report.html"
    assert write_report([run, other]) == tmp_path / "compare.html"
    assert write_report([run, tmp_path / "latest"]) == run / "report.html"
    assert write_report([run], tmp_path / "new" / "page.html").is_file()
    assert not list(tmp_path.rglob("*.partial"))
    assert "<h1>run</h1>" in write_report([tmp_path / "latest"]).read_text()


# 7. The command.


def test_the_command_prints_the_page_and_never_loads_tensorflow(run, tmp_path):
    page = tmp_path / "page.html"
    args = ["report", str(run), "--output", str(page)]
    assert run_without_tensorflow(*args).split() == [str(page)]
    assert page.is_file()


def test_the_command_names_a_folder_that_is_no_run(tmp_path, capsys):
    assert main(["report", str(tmp_path / "none")]) == CheckpointError.exit_code
    assert f"{tmp_path / 'none'}: is not a run folder" in capsys.readouterr().err


def test_a_report_that_fails_is_a_warning_with_a_command_to_try_again(run, monkeypatch, capsys):
    from trainer.report import write
    from trainer.run_folder import RunFolder
    from trainer.training.reporter import Reporter
    from trainer.training.setup import set_up

    def fail(_):
        raise RuntimeError("out of ink")

    monkeypatch.setattr(write, "write_report", fail)
    other = replace(PRESETS["synthetic"], runs_dir=str(run.parent))
    setup = replace(set_up(other, 2, "other"), folder=RunFolder(run))
    reporter = Reporter(setup, chief=True)
    result = json.loads((run / "result.json").read_text())
    reporter.finished(100, result, None)
    said = capsys.readouterr()
    assert "RuntimeError: out of ink" in said.err
    assert f"ml-trainer report {run}" in said.err
    assert "report.html" not in said.out
    assert json.loads((run / "result.json").read_text()) == {**result, "warnings": []}
