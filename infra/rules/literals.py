"""Facts that the rules have of their own: ids, conditions and places, written down a second time.

Nothing here is imported from what declares the resources. If a role's GUID, the subnet of a duty
or a condition changes there, the rules still hold the old value, and report the change.
"""

from collections.abc import Mapping
from typing import Final

ROLES: Final[Mapping[str, str]] = {
    "b24988ac-6180-42a0-ab88-20f7382dd24c": "Contributor",
    "acdd72a7-3385-48ef-bd42-f606fba81ae7": "Reader",
    "2a2b9908-6ea1-4ae2-8e65-a410df84e7d1": "Storage Blob Data Reader",
    "ba92f5b4-2d11-453d-a403-e96b0029c9fe": "Storage Blob Data Contributor",
    "69566ab7-960f-475b-8e7c-b3118f30c6bd": "Storage File Data Privileged Contributor",
    "7f951dda-4ed3-4680-a7ca-43fe172d538d": "AcrPull",
    "8311e382-0749-4cb8-b61a-304f252e45ec": "AcrPush",
    "00482a5a-887f-4fb3-b363-3b7fe8e74483": "Key Vault Administrator",
    "4633458b-17de-408a-b874-0445c86b69e6": "Key Vault Secrets User",
    "e147488a-f6f5-4113-8e2d-b22465e65bf6": "Key Vault Crypto Service Encryption User",
    "f6c7c914-8db3-469d-8ca1-694a8f32e121": "AzureML Data Scientist",
    "e503ece1-11d0-4e8e-8e2c-7a6c3bf38815": "AzureML Compute Operator",
    "b556d68e-0be0-4f35-a333-ad7ee1ce17ea": "Azure AI Enterprise Network Connection Approver",
    "fb879df8-f326-4884-b1cf-06f3ad86be52": "Virtual Machine User Login",
    "1c0163c0-47e6-4577-8991-ea5c82e286e4": "Virtual Machine Administrator Login",
    "489581de-a3bd-480d-9518-53dea7416b33": "Desktop Virtualization Power On Contributor",
}
"""Names of the roles that may be assigned, by GUID (Azure, "Azure built-in roles"). None of them
allows its holder to assign roles."""
OWN_ROLE: Final = "data scientist of the stack"
"""Name of the role that a stack defines in the place of AzureML Data Scientist."""

_BLOBS: Final = "Microsoft.Storage/storageAccounts/blobServices/containers/blobs"
_READ: Final = f"ActionMatches{{'{_BLOBS}/read'}} AND NOT SubOperationMatches{{'Blob.List'}}"
_NAME: Final = "@Resource[Microsoft.Storage/storageAccounts/blobServices/containers:name]"
_PATH: Final = f"@Resource[{_BLOBS}:path]"
_WRITES: Final = (
    f"!(ActionMatches{{'{_BLOBS}/write'}}) AND !(ActionMatches{{'{_BLOBS}/add/action'}}) AND "
    f"!(ActionMatches{{'{_BLOBS}/delete'}})"
)
_ALL_BUT: Final = (
    f"(!({_READ})) OR ({_NAME} StringNotEquals 'results' "
    f"OR {_PATH} StringStartsWith 'environments/'"
)
READS_NO_RESULTS: Final = f"({_ALL_BUT}))"
READS_NO_RUNS: Final = f"({_ALL_BUT} OR {_PATH} StringStartsWith 'models/'))"
WRITES_RUNS: Final = f"(({_WRITES}) OR ({_PATH} StringStartsWith 'runs/'))"
WRITES_JOB_OUTPUTS: Final = f"(({_WRITES}) OR ({_PATH} StringStartsWith 'azureml/'))"

IDENTITY_OF_DUTY: Final = {"train": "training", "prepare": "preparation", "build": "build"}
SUBNET_OF_DUTY: Final = {"train": "training", "prepare": "training", "build": "build"}
"""Only image builds may reach the internet."""
