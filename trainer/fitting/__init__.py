"""From a folder of images to a run that fits them, in one command."""
