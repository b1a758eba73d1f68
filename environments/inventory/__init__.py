"""The bill of materials of an image, and its licences."""
