"""Models in use: endpoints on Azure that answer with the classes of images. Needs `evidence`."""
