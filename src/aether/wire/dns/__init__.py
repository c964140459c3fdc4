"""DNS messages (RFC 1035)."""
