"""Export of a model as ONNX as well."""
