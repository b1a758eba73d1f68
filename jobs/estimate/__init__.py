"""What a training will take, before anything is rented."""
