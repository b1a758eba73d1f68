"""Types the commands of the judge azure-cli: `python -m conformance.type_commands AZ`."""

import json
import sys

from conformance.azure_cli import type_all

if __name__ == "__main__":
    print(json.dumps(type_all(sys.argv[1])))
