"""Distributed ResNet training with TensorFlow and Horovod."""

__version__ = "0.1.0"
