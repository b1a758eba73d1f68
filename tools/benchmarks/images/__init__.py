"""The cost of treating images, and the decoders that notice damage."""
