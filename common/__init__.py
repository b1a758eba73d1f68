"""Code that several worlds share. Nothing here imports TensorFlow, Pulumi or an SDK."""
