"""Start programs one after the other, disturb them, and tell how they ended.

Runs inside an image, so that Docker, Podman and Buildah need no way into a running container. Reads
a list of scenes as JSON from its argument and prints a list of the events, as its last line.
"""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

MARK = "DRIVEN_BY"
"""Environment variable that marks all processes started here."""
TIMEOUT_SECONDS = 240.0


def play(scene: dict[str, Any]) -> dict[str, Any]:
    """Run one scene.

    Args:
        scene: `command`; `until`, a regular expression, and `times`, after how many lines like it
            the `signal` is sent to the `target`: "launcher", or "0", "1" and so on for a rank.
    """
    env = {**os.environ, MARK: str(os.getpid()), **scene.get("env", {})}
    process = subprocess.Popen(
        scene["command"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=env
    )
    lines: list[str] = []
    reader = threading.Thread(target=_read, args=(process, lines))
    reader.start()
    sent = when = None
    try:
        if "signal" in scene and _seen(scene, process, lines):
            sent, when = time.monotonic(), time.time()
            os.kill(_target(process.pid, scene["target"]), signal.Signals[scene["signal"]])
        status = process.wait(TIMEOUT_SECONDS)
        ended = time.monotonic()
    except subprocess.TimeoutExpired:
        status, ended = None, time.monotonic()
    left = [pid for pid, _ in _started()]
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    reader.join()
    return {
        "status": status,
        "sent": when,
        "seconds": None if sent is None else ended - sent,
        "left": left,
        "said": "".join(lines),
    }


def _read(process: "subprocess.Popen[str]", lines: list[str]) -> None:
    assert process.stdout is not None
    lines.extend(process.stdout)


def _seen(scene: dict[str, Any], process: "subprocess.Popen[str]", lines: list[str]) -> bool:
    """Wait for the scene's lines; return whether they came before the program ended."""
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        if sum(bool(re.search(scene["until"], line)) for line in lines) >= scene["times"]:
            return True
        time.sleep(0.02)
    return False


def _started() -> list[tuple[int, dict[str, str]]]:
    """Return the running processes of a scene, with their environment variables."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            content = (folder / "environ").read_bytes().decode(errors="replace")
        except OSError:
            continue
        pairs = (pair.partition("=") for pair in content.split("\0"))
        variables = {name: value for name, _, value in pairs}
        if variables.get(MARK) == str(os.getpid()):
            found.append((int(folder.name), variables))
    return found


def _target(launcher: int, wanted: str) -> int:
    """Return the process of the launcher, or of a rank."""
    if wanted == "launcher":
        return launcher
    (pid,) = (
        pid for pid, variables in _started() if variables.get("OMPI_COMM_WORLD_RANK") == wanted
    )
    return pid


if __name__ == "__main__":
    print(json.dumps([play(scene) for scene in json.loads(sys.argv[1])]))
