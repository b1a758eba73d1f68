"""The site of docs/: a hook of MkDocs, and the scripts that npm installs for it."""
