"""Chromium, which opens pages and lets them tell what became of them."""

import html
import json
import re
import shutil
import subprocess

import pytest

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
SETTLING_MS = 10_000
"""Time of the browser's own clock, which runs as fast as it can."""

needs_chromium = pytest.mark.skipif(
    CHROMIUM is None,
    reason="Chromium is not installed, so no page is opened: apt install chromium",
)

SCHEMES = pytest.mark.parametrize(
    ("flags", "background", "colour"),
    [
        ((), "rgb(246, 247, 249)", "rgb(11, 92, 173)"),
        (("--force-dark-mode",), "rgb(15, 18, 22)", "rgb(108, 179, 247)"),
    ],
    ids=["light", "dark"],
)
"""Flags of the browser, and the colours of the page and of a first curve with them."""

PROBE = """<script>addEventListener("load", () => setTimeout(() => {
  parent.postMessage({
    name: NAME,
    width: innerWidth,
    needs: document.documentElement.scrollWidth,
    background: getComputedStyle(document.body).backgroundColor,
    plots: Object.fromEntries([...document.querySelectorAll(".plot")].map((plot) => [
      plot.querySelector("h3").textContent, plot.querySelectorAll("polyline").length])),
    overflow: Math.max(0, ...[...document.querySelectorAll(".plot")].map(
      (plot) => plot.scrollWidth - plot.clientWidth)),
    colour: getComputedStyle(document.querySelector("g.line") ?? document.body).color,
    loaded: performance.getEntriesByType("resource").map((entry) => entry.name)
      .filter((name) => !name.startsWith("data:")),
    images: [...document.images].map((image) => image.complete && image.naturalWidth),
    more: MORE,
  }, "*");
}, 500));</script></body>"""


def look(folder, pages, *flags, more="null"):
    """Open pages side by side, each in a frame of its own width.

    Args:
        folder: for the browser's files.
        pages: file and width in CSS pixels, by name.
        flags: for the browser.
        more: expression in JavaScript that each page tells the value of, last of all.

    Returns:
        The results of each page, and the lines of the console.
    """
    frames = ""
    for name, (page, width) in pages.items():
        probed = folder / f"{name}.html"
        probe = PROBE.replace("NAME", repr(name)).replace("MORE", more)
        probed.write_text(page.read_text().replace("</body>", probe))
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
