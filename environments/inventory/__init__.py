"""What is inside an image: its bill of materials, and the licences in it."""
