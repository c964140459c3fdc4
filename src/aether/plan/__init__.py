"""What should be: facts to plan, with reasons."""
