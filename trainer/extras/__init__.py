"""Optional features, a folder each; `trainer/leaves.py` lists them. The trunk imports none."""
