"""From files of images to a data set of shards: `python -m trainer prepare`."""
