"""Requests of Azure's SDK for a job."""

import json

from azure.ai.ml._restclient.arm_ml_service._utils.model_base import SdkJSONEncoder
from azure.ai.ml.entities._job.to_rest_functions import to_rest_job_object


def wire_body(job):
    """Return the properties in the request body of a job with resolved references."""
    return json.loads(
        json.dumps(to_rest_job_object(job), cls=SdkJSONEncoder, exclude_readonly=True)
    )["properties"]
