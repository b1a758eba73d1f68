"""The commands of the Azure CLI that a script of roles uses, answered by the simulator."""

import stat
import sys
from textwrap import dedent

PROGRAM = dedent(
    '''\
    #!{python}
    """az identity show, az resource show, az role assignment create, az rest."""

    import json
    import os
    import sys
    import urllib.parse
    import urllib.request

    URL = {url!r}
    words = sys.argv[1:]
    given = {{one: words[at + 1] for at, one in enumerate(words[:-1]) if one.startswith("--")}}


    def send(method, path, body=None, form=None, token=None):
        data = urllib.parse.urlencode(form).encode() if form else json.dumps(body).encode()
        headers = {{"Authorization": f"Bearer {{token}}"}} if token else {{}}
        headers |= {{}} if form else {{"Content-Type": "application/json"}}
        request = urllib.request.Request(
            URL + path, data if body or form else None, headers, method=method
        )
        try:
            with urllib.request.urlopen(request) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            sys.exit(f"ERROR: {{error.read().decode()}}")


    tenant = os.environ["AZURE_TENANT_ID"]
    token = send("POST", f"/{{tenant}}/oauth2/v2.0/token", form={{
        "grant_type": "client_credentials",
        "client_id": os.environ["AZURE_CLIENT_ID"],
        "client_secret": os.environ["AZURE_CLIENT_SECRET"],
        "scope": URL + "/.default",
    }})["access_token"]
    API = "?api-version=2022-04-01"
    if words[:2] == ["account", "get-access-token"]:
        sys.exit()
    if words[1] == "show":
        found = send("GET", given["--ids"] + API, token=token)
        wanted = given.get("--query", "").removeprefix("properties.")
        print(found["properties"].get(wanted, "") if wanted else json.dumps(found))
    elif words[0] == "rest":
        assert given["--method"] == "put", words
        at = given["--url"].removeprefix("https://management.azure.com")
        send("PUT", at, json.loads(given["--body"]), token=token)
    else:
        assert words[:3] == ["role", "assignment", "create"], words
        names = json.loads({roles!r})
        scope = given["--scope"]
        subscription = "/".join(scope.split("/")[:3])
        definitions = f"{{subscription}}/providers/Microsoft.Authorization/roleDefinitions"
        body = {{
            "principalId": given["--assignee-object-id"],
            "principalType": given["--assignee-principal-type"],
            "roleDefinitionId": f"{{definitions}}/{{names.get(given['--role'], given['--role'])}}",
        }}
        if "--condition" in given:
            body["condition"] = given["--condition"]
            body["conditionVersion"] = given["--condition-version"]
        at = f"{{scope}}/providers/Microsoft.Authorization/roleAssignments/{{given['--name']}}"
        send("PUT", at + API, {{"properties": body}}, token=token)
    '''
)


def write(folder, url, roles):
    """Write the program `az` to a folder.

    Args:
        folder: Folder for the PATH.
        url: Address of the simulator.
        roles: GUIDs of roles by their names, as JSON.
    """
    folder.mkdir()
    program = folder / "az"
    program.write_text(PROGRAM.format(python=sys.executable, url=url, roles=roles))
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return folder
