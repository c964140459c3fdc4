"""The loops of one node's agent."""
