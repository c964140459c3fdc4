"""What is true: frozen facts and their names."""
