"""Views of a stack that need no Azure: its resources, their cost, a picture of them."""
