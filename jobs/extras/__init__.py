"""Optional features, a folder each; `jobs/leaves.py` lists them. The trunk imports none."""
