"""What it costs to treat images, and which decoders notice damage."""
