"""Object detection: boxes and classes of the objects in an image."""
