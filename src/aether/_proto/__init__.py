"""Generated messages. Regenerate with `make proto`."""
