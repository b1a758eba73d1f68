"""The policy pack: `pulumi up --policy-pack infra/policies`.

The engine starts this file by its path, so the repository is not on sys.path.
"""

import sys
from functools import cache
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from pulumi_policy import PolicyPack

from infra.policies.pack import NAME, policies
from infra.policies.stack import settings_of

# Serves the engine until it exits; does not return.
PolicyPack(NAME, policies(cache(settings_of)))
