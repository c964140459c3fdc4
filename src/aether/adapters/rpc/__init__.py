"""The channel between a node agent and the control plane."""
