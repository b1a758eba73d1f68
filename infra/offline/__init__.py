"""What is known of a stack without Azure: its resources, their cost, a picture of them."""
