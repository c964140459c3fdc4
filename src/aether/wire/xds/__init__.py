"""The delta xDS protocol, seen from the server."""
