"""The loops of the single machine: controllers, pods, the embedded registry."""
