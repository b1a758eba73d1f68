"""The exported model in use: a server for images, and files of scores for many images."""
