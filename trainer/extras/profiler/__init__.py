"""Traces of training steps by TensorFlow's profiler."""
