"""The run report in a real browser: drawn, without an error, and as wide as a phone."""

import html
import json
import re
import shutil
import subprocess

import pytest

from tests.trainer.written_run import HOSTILE, write_run
from trainer.report.write import write_report

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
SETTLING_MS = 10_000
"""Time of the browser's own clock, which runs as fast as it can."""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        CHROMIUM is None,
        reason="Chromium is not installed, so no page is opened: apt install chromium",
    ),
]

PROBE = """<script>addEventListener("load", () => setTimeout(() => {
  const canvases = [...document.querySelectorAll(".canvas")];
  const line = (canvas) => canvas.querySelector(".scatterlayer .js-line");
  parent.postMessage({
    name: NAME,
    width: innerWidth,
    needs: document.documentElement.scrollWidth,
    background: getComputedStyle(document.body).backgroundColor,
    plots: Object.fromEntries(canvases.map((canvas) => [canvas.id, {
      curves: [...canvas.querySelectorAll(".scatterlayer .js-line")]
        .filter((path) => path.getAttribute("d").includes("L")).length,
      colour: line(canvas) && line(canvas).style.stroke,
      width: canvas.querySelector(".main-svg").getBoundingClientRect().width,
      place: canvas.getBoundingClientRect().width,
    }])),
    loaded: performance.getEntriesByType("resource").map((entry) => entry.name)
      .filter((name) => !name.startsWith("data:")),
    images: [...document.images].map((image) => image.complete && image.naturalWidth),
  }, "*");
}, 500));</script></body>"""


def look(folder, pages, *flags):
    """Open pages side by side, each in a frame of its own width.

    Args:
        folder: for what the browser writes.
        pages: file and width in CSS pixels, by name.
        flags: for the browser.

    Returns:
        What each page said of itself, and the lines of the console.
    """
    frames = ""
    for name, (page, width) in pages.items():
        probed = folder / f"{name}.html"
        probed.write_text(page.read_text().replace("</body>", PROBE.replace("NAME", repr(name))))
        frames += f'<iframe src="{name}.html" style="width: {width}px; height: 800px"></iframe>'
    collect = (
        "<script>const seen = []; console.log('the console is heard');"
        "addEventListener('message', (event) => { seen.push(event.data);"
        " document.title = JSON.stringify(seen); });</script>"
    )
    (folder / "frames.html").write_text(
        '<!doctype html><meta name="color-scheme" content="light dark"><title></title>'
        f"{collect}{frames}"
    )
    command = [
        *(str(CHROMIUM), "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"),
        *("--enable-logging=stderr", f"--user-data-dir={folder / 'profile'}"),
        *(f"--virtual-time-budget={SETTLING_MS}", "--dump-dom", *flags),
        (folder / "frames.html").as_uri(),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    console = [line for line in done.stderr.splitlines() if ":CONSOLE" in line]
    title = re.search("<title>(.+?)</title>", done.stdout, re.DOTALL)
    assert title, f"no page has said anything; the console: {console}"
    seen = {entry["name"]: entry for entry in json.loads(html.unescape(title[1]))}
    assert seen.keys() == pages.keys(), console
    # Or silence would prove nothing.
    assert any("the console is heard" in line for line in console), done.stderr
    return seen, [line for line in console if "the console is heard" not in line]


@pytest.mark.parametrize(
    ("flags", "background", "colour"),
    [
        ((), "rgb(246, 247, 249)", "rgb(11, 92, 173)"),
        (("--force-dark-mode",), "rgb(15, 18, 22)", "rgb(108, 179, 247)"),
    ],
    ids=["light", "dark"],
)
def test_a_browser_draws_every_plot_without_an_error(tmp_path, flags, background, colour):
    names = [HOSTILE, *(f"a rather long name of class {number}" for number in range(29))]
    runs = [
        write_run(tmp_path / "run", names=names, wrong=[(0, 1), (1, 0), (2, 9)], runs_dir=HOSTILE),
        write_run(tmp_path / ("<b>long" * 20), wrong=[(1, 2)]),
    ]
    one, both = write_report(runs[:1]), write_report(runs)
    pages = {"phone": (one, 360), "wide": (one, 1280), "compared": (both, 360)}
    seen, console = look(tmp_path, pages, *flags)
    assert console == []
    for name, page in seen.items():
        assert page["width"] == pages[name][1]
        assert page["needs"] <= page["width"], name
        assert page["background"] == background
        assert page["loaded"] == []
        assert all(page["images"])
        for plot in page["plots"].values():
            assert plot["colour"] == colour
            assert plot["width"] <= plot["place"] + 1
        curves = {key: plot["curves"] for key, plot in page["plots"].items()}
        several = 4 if name == "compared" else 2
        assert curves == {
            "plot-loss": several,
            "plot-accuracy": 4 if name == "compared" else 3,
            **dict.fromkeys(
                ("plot-rate", "plot-throughput", "plot-wait", "plot-gradient"), several // 2
            ),
        }
    assert len(seen["phone"]["images"]) == 3
