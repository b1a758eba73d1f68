"""What several worlds need, once. Nothing here imports TensorFlow, Pulumi or an SDK."""
