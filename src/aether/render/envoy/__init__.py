"""The mesh plan spelled as Envoy resources."""
