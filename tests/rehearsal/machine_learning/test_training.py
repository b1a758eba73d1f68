"""The real trainer as a submitted job."""

import pytest

from tests import ROOT
from tests.rehearsal.support.training import train_on_two_nodes

PYTHON = ROOT / ".venv-trainer" / "bin" / "python"


@pytest.mark.slow
@pytest.mark.skipif(not PYTHON.exists(), reason="the trainer's environment is not installed")
def test_two_nodes_train_together_and_write_to_their_containers(client, azure, results):
    log, result = train_on_two_nodes(client, azure, results)
    assert result["ranks"] == 2, log
    events = azure.blobs.container("teststore", "azureml").list_blobs(
        name_starts_with="ExperimentRun/dcid.training/outputs/tb/"
    )
    assert list(events), log
