"""The house's own tools: checks that `make lint` runs, and what writes generated pages."""
