"""Assets that a workspace registers by name and version: data sets, images, code and models."""
