"""Where an asset is, however its address is written. Pure."""


def place(uri: str) -> str:
    """Datastore and folder of an address: Azure gives back a longer one than it was given."""
    return uri[uri.find("/datastores/") :].rstrip("/") if "/datastores/" in uri else uri
