"""Small real programs to try a mesh with. Nothing in the product imports them."""
