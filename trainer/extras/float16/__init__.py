"""Export of a model whose weights are stored as float16."""
