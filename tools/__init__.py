"""Programs for engineers of this repository: benchmarks, the judges of others, generated pages."""
