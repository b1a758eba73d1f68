"""From the bytes of an image file to pixels: the one way, with Pillow and in a graph."""
