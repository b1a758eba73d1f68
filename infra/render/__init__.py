"""A stack rendered without Azure: its resources, their cost, a picture and a snapshot of them."""
