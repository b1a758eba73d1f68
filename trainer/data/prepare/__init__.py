"""From files of images to a data set of shards: `ml-trainer prepare`."""
