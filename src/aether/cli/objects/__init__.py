"""Objects: applying, listing, describing and deleting them."""
