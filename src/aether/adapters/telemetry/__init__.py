"""What the data plane and our own processes tell: logs, counts, access logs."""
