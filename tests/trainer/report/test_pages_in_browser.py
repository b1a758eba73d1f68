"""The pages in a real browser: drawn, without an error, as wide as a phone, and with scripts that
answer a pointer.
"""

import re

import pytest

from tests.trainer.support.browser import SCHEMES, look, needs_chromium
from tests.trainer.support.data_sets.written_set import write_set
from tests.trainer.support.written_run import HOSTILE, change_result, write_run
from trainer.report.data_set_page import write_inspection
from trainer.report.options import InspectOptions
from trainer.report.write import write_report

pytestmark = [pytest.mark.slow, needs_chromium]

USED = """(() => {
  const box = document.getElementById("filter");
  if (box) {
    const type = (text) => {
      box.value = text;
      box.dispatchEvent(new Event("input"));
      return [[...document.querySelectorAll(".class")].filter((c) => c.getClientRects().length)
        .length, document.getElementById("filtered").textContent];
    };
    return [type(" LASS 29"), type("none"), type("")];
  }
  const plot = [...document.querySelectorAll(".plot")].find(
    (plot) => plot.querySelector("h3").textContent === "Loss");
  if (!plot) return null;
  const [ground, area] = [plot.querySelector(".ground"), plot.querySelector(".area")];
  const { left, width } = ground.getBoundingClientRect();
  const point = (type, share) => area.dispatchEvent(new PointerEvent(type,
    { clientX: left + share * width, pointerType: "mouse", bubbles: true }));
  point("pointermove", 0.4);
  const told = [plot.querySelector(".at").textContent,
    ...[...plot.querySelectorAll("output")].map((output) => output.textContent)];
  point("pointerdown", 0.5);
  point("pointerup", 1);
  const enlarged = [...plot.querySelectorAll("text.x")].map((text) => text.textContent);
  area.dispatchEvent(new MouseEvent("dblclick"));
  const reset = [...plot.querySelectorAll("text.x")].map((text) => text.textContent);
  plot.querySelector(".legend li").click();
  return { told, enlarged, reset, hidden: plot.querySelectorAll("g[hidden]").length };
})()"""
"""Types into the filter, or points at the first plot, and tells what is then shown."""


@SCHEMES
def test_a_browser_draws_every_page_and_its_scripts_answer(tmp_path, flags, background, colour):
    names = [HOSTILE, *(f"a rather long name of class {number}" for number in range(29))]
    runs = [
        write_run(tmp_path / "run", names=names, wrong=[(0, 1), (1, 0), (2, 9)], runs_dir=HOSTILE),
        write_run(tmp_path / ("<b>long" * 20), wrong=[(1, 2)]),
    ]

    for run in runs:
        metrics = run / "metrics.jsonl"
        both = re.sub(r'"loss": ([0-9.]+)', r'\g<0>, "training_loss": \1', metrics.read_text())
        metrics.write_text(both)

    def data_set(name, counts, names=None):
        write_set(tmp_path / name, counts, [1] * len(counts), names=names)
        return write_inspection(tmp_path / name, InspectOptions())

    one, both = write_report(runs[:1]), write_report(runs)
    few = data_set("few", [30, 9, 0], [HOSTILE, "x" * 80, "a name of several words that is long"])
    many = data_set("many" * 20, [max(1, 200 // (n + 1)) for n in range(300)])
    pages = {
        "phone": (one, 360),
        "wide": (one, 1280),
        "compared": (both, 360),
        "few": (few, 360),
        "many": (many, 360),
    }
    seen, console = look(tmp_path, pages, *flags, more=USED)
    assert console == []
    for name, page in seen.items():
        assert page["width"] == pages[name][1]
        assert page["needs"] <= page["width"], name
        assert page["background"] == background
        assert page["loaded"] == []
        assert all(page["images"])
        assert page["overflow"] == 0
        assert name == "few" or page["colour"] == colour
    single = ("Learning rate", "Throughput", "Data wait", "Gradient norm")
    curves = {"Loss": 2, "Accuracy": 3, **dict.fromkeys(single, 1)}
    assert seen["phone"]["plots"] == {**curves, "Probability and accuracy": 2}
    assert seen["compared"]["plots"] == {"Loss": 4, "Accuracy": 4, **dict.fromkeys(single, 2)}
    assert seen["many"]["plots"] == {"Class balance": 2}
    assert [len(seen[name]["images"]) for name in ("phone", "few")] == [3, 16]

    used = seen["wide"]["more"]
    assert used["told"] == ["step 40 (epoch 2.00)", "2.2", "1.333"]
    assert used["reset"] == ["0", "20", "40", "60", "80", "100"]
    assert used["enlarged"][0] == "51"
    assert used["hidden"] == 1
    assert seen["compared"]["more"]["told"][1:] == ["training 2.2, held-out 1.333"] * 2
    everything = [[11, "11 of 300 classes"], [0, "0 of 300 classes"], [300, ""]]
    assert seen["many"]["more"] == everything


FILLED = """[...document.querySelectorAll(".plots, .gallery, .columns")].map((grid) => {
  const last = grid.lastElementChild.getBoundingClientRect();
  const row = [...grid.children].map((child) => child.getBoundingClientRect())
    .filter((box) => box.bottom > last.top);
  const whole = grid.getBoundingClientRect();
  const filled = (last.right - Math.min(...row.map((box) => box.left))) / whole.width;
  return [grid.className.split(" ")[0], filled];
})"""
"""Kind of each group of blocks, and the part of its width that its last row fills."""


BROKEN = """[...document.querySelectorAll(".numbers td, .numbers tbody th")].filter((cell) => {
  const range = document.createRange(), key = cell.querySelector(".key");
  range.selectNodeContents(cell.matches("td") || !key ? cell : key.nextSibling);
  const lines = [...range.getClientRects()].filter((box) => box.width);
  if (key) return Math.abs(lines[0].bottom - key.getBoundingClientRect().bottom) > 12;
  return cell.matches("td") && new Set(lines.map((box) => Math.round(box.top))).size > 1;
}).map((cell) => cell.textContent)"""
"""Numbers that are on two lines, and names whose key is on another line."""


def test_no_row_is_half_empty_and_no_number_divided_on_a_wide_screen(tmp_path):
    pages = {}
    for mistakes in (1, 2, 3, 5, 7, 13):
        wrong = [(n % 10, (n + 1) % 10) for n in range(mistakes)]
        run = write_run(tmp_path / f"run-{mistakes}", wrong=wrong)
        pages[f"wrong-{mistakes}"] = write_report([run]), 1280
    baseline = {"top1": 0.5, "balanced_accuracy": 0.1, "top5": 0.5}
    runs = [write_run(tmp_path / name, runs_dir=name) for name in ("soft", "hard")]
    for run in runs:
        change_result(run, training_seconds=15.2, balanced_accuracy=0.5, baseline=baseline)
    pages["compared"] = write_report(runs), 1280
    seen, console = look(tmp_path, pages, more=f"({{filled: {FILLED}, broken: {BROKEN}}})")
    assert console == []
    for name, page in seen.items():
        assert page["more"]["broken"] == []
        kinds = [kind for kind, _ in page["more"]["filled"]]
        assert name == "compared" or {"plots", "gallery", "columns"} == set(kinds), name
        for kind, filled in page["more"]["filled"]:
            assert filled > (0.55 if kind == "gallery" else 0.99), (name, kind)
