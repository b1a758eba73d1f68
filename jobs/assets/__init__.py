"""Assets that are registered in a workspace, by name and version: data sets, images, code,"
" models."""
