"""How it is spelled: plan to somebody else's format."""
