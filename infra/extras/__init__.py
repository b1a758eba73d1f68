"""Optional features, a folder each; `infra/leaves.py` lists them. The trunk imports none."""
