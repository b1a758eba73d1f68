"""How records lie in files, by format; nothing outside knows of more than the interface."""
