"""What a workspace registers: data sets, images, code and models, each as name and version."""
