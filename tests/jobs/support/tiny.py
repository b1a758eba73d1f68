"""Jobs that run a shell command on the simulator, tagged as runs of this project."""

import _thread
import signal
import subprocess
import sys
import threading
import time
import traceback
from contextlib import contextmanager

from tests import ROOT
from tests.jobs.support.live import ARM

IMAGE = "environments/tiny/versions/1"
TRAINED = (
    'mkdir -p "${{outputs.run}}/%(run)s" && echo \'{"steps": 1}\' >'
    ' "${{outputs.run}}/%(run)s/result.json"'
)
"""Shell command that writes the result of a completed run."""


def begin(
    live,
    run,
    command,
    *,
    cluster=None,
    kind="train",
    nodes=1,
    ranks=1,
    timeout="PT1H",
    number=1,
    tags=(),
):
    """Submit an attempt of a run; return the id of its job."""
    clusters = live.outputs.clusters
    image = f"{live.workspace}/{IMAGE}"
    live.azure.put(image, ARM, {"properties": {"image": "tiny"}})
    store = live.outputs.datastores.results.name
    body = {
        "jobType": "Command",
        "command": command % {"run": run},
        "computeId": f"{live.workspace}/computes/{(cluster or clusters['preparation']).name}",
        "environmentId": image,
        "experimentName": kind,
        "displayName": f"{run}, attempt {number}",
        "resources": {"instanceCount": nodes},
        "distribution": {"distributionType": "Mpi", "processCountPerInstance": 1},
        "limits": {"jobLimitsType": "Command", "timeout": timeout},
        "inputs": {},
        "outputs": {
            "run": {
                "jobOutputType": "uri_folder",
                "mode": "ReadWriteMount",
                "uri": f"azureml://datastores/{store}/paths/runs/{run}",
            }
        },
        "tags": {"run": run, "attempt": str(number), "kind": kind, "stack": "dev", **dict(tags)},
    }
    job = f"{live.workspace}/jobs/{run}-r{number}"
    live.azure.put(job, ARM, {"properties": body})
    return job


def status(live, job):
    """Return the status of a job by its id."""
    return live.azure.runs.get(job)["status"]


def wait_for(condition, seconds=300.0):
    """Wait until a condition holds; one that takes long is looked at less often, so that the
    awaited process has the cores.
    """
    until = time.monotonic() + seconds
    while True:
        began = time.monotonic()
        if condition():
            return
        ended = time.monotonic()
        assert ended < until, "it has not come to that"
        time.sleep(max(0.02, 5 * (ended - began)))


def meanwhile(*steps):
    """Run steps in a thread while the test's thread follows a job. A step that fails interrupts the
    test, which would otherwise follow for ever.
    """

    def work():
        try:
            for step in steps:
                step()
        except Exception:  # noqa: BLE001
            traceback.print_exc()
            _thread.interrupt_main()

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


def running(live, job):
    """Return a step that waits until a job runs."""
    return lambda: wait_for(lambda: status(live, job) == "Running")


def by_hand(live, *args, repository=ROOT):
    """The command line as a person starts it, so that it hears Ctrl-C; a process that a shell
    starts in the background ignores it.
    """
    program = (
        "import pathlib, signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler);"
        "from jobs import cli; from jobs.azure import submission;"
        "from jobs.spec import from_options;"
        "from_options.REPOSITORY = pathlib.Path(sys.argv.pop(1)); submission.ARRIVAL_SECONDS = 0.5;"
        "sys.exit(cli.main())"
    )
    return subprocess.Popen(
        [sys.executable, "-c", program, str(repository), *args],
        cwd=ROOT,
        env=live.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def interrupt(child):
    """Send Ctrl-C, and return the output of a command."""
    child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=120)
    assert child.returncode == 130, err
    assert "Traceback" not in err
    return out + err


@contextmanager
def started(live, *args, **options):
    """Start a command that ends with its test."""
    child = by_hand(live, *args, **options)
    try:
        yield child
    finally:
        child.kill()
        child.communicate()


def read_until(child, words):
    """Read the output of a command until a line contains the words."""
    while words not in (line := child.stdout.readline()):
        assert line, child.stderr.read()
    return line
