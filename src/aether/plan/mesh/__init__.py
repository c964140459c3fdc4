"""The plan of the mesh half."""
