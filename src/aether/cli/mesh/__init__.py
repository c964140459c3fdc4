"""The mesh: what serves, what is wrong, and what becomes of a request."""
