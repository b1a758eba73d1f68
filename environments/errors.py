"""What a person can act on; the command line prints it without a traceback."""


class ImageError(Exception):
    """Something about an image or its builder; the message says what to do."""
