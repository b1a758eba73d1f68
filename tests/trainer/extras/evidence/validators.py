"""Other projects' readers of the documents about a run; runs in the environment .tools/validators.

python tests/trainer/extras/evidence/validators.py RUN PUBLIC_KEY
"""

import base64
import json
import sys
from pathlib import Path

from cryptography.hazmat.primitives.serialization import load_pem_public_key
from google.protobuf import json_format
from huggingface_hub import ModelCard
from in_toto_attestation.v1 import statement_pb2
from in_toto_attestation.v1.statement import Statement
from securesystemslib.dsse import Envelope
from securesystemslib.signer import SSlibKey


def main(run, public_key):
    key = load_pem_public_key(public_key.read_bytes())
    files = sorted((run / "evidence").glob("*.json"))
    for path in files:
        data = json.loads(path.read_text())
        (name,) = (signature["keyid"] for signature in data["signatures"])
        read = json_format.Parse(base64.b64decode(data["payload"]), statement_pb2.Statement())
        Envelope.from_dict(data).verify([SSlibKey.from_crypto(key, name)], 1)
        Statement.copy_from_pb(read).validate()
    card = ModelCard.load(run / "evidence" / "views" / "README.md", ignore_metadata_errors=False)
    card.data.to_dict()
    (result, *_) = card.data.eval_results
    told = {
        "statements": len(files),
        "task": card.data.pipeline_tag,
        "metric": [result.metric_type, result.metric_value],
    }
    print(json.dumps(told))


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
