"""The aether command line."""
