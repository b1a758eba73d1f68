"""The real SDK as a black box: only environment variables tell it where Azure is."""

import json
import os
import subprocess
import sys

from tests import ROOT
from tests.rehearsal.support.small_platform import GROUP, SUBSCRIPTION
from tests.rehearsal.support.waiting import SECONDS


def test_the_sdk_does_its_work(azure, client, tmp_path):
    facts = {
        "subscription": SUBSCRIPTION.rpartition("/")[2],
        "group": GROUP.rpartition("/")[2],
        "workspace": "ws",
        "cluster": "cluster",
        "datastore": "results",
        "container": "results",
        "endpoint": azure.blob_endpoint("teststore"),
        "nodes": 2,
    }
    done = subprocess.run(
        [
            sys.executable,
            ROOT / "tests/rehearsal/support/sdk_user.py",
            json.dumps(facts),
            tmp_path,
        ],
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path), **azure.environment},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout.splitlines()[-1])
    assert said["workspace"] == "ws"
    assert said["compute"] == ["Standard_ND40rs_v2", "low_priority", 2]
    assert said["missing"] == 404
    assert said["usage"] > 0
    assert said["image"] == "x:1"
    assert said["data"].endswith("/digits/")
    assert said["latest"] == "1"
    assert said["model"] == "3"
    assert "digits/one.txt" in said["blobs"]
    assert said["submitted"] in {"Starting", "Preparing", "Queued"}
    assert said["got"] == "first"
    assert "first" in said["listed"]
    assert said["ended"] == "Completed"
    assert client.log("first", "std_log_process_00.txt").startswith("hello 1 ")
    assert said["cancelled"] == "Canceled"
