"""Identities: who the workspace and each kind of job act as."""

import pulumi
from pulumi_azure_native import managedidentity

from infra.components.base import Component, Place
from infra.components.roles import Principal
from infra.naming import IdentityRole


class Identities(Component):
    """One user-assigned identity a duty, so that no job holds what another needs.

    Training only reads the data; preparation writes them; images are pushed by the build identity,
    which sees no data. The service's own identity would only exist with the workspace, too late to
    be given roles before it.
    """

    def __init__(
        self, place: Place, duties: list[IdentityRole], opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("identities", opts)
        self.of = {
            duty: managedidentity.UserAssignedIdentity(
                f"identity-{duty}",
                resource_name_=place.names.identity(duty),
                resource_group_name=place.group,
                location=place.region,
                tags=place.tags,
                opts=self.own(),
            )
            for duty in duties
        }
        self.register_outputs({})

    def principal(self, duty: IdentityRole) -> Principal:
        """Who is given the roles of a duty."""
        return Principal(duty, self.of[duty].principal_id)
