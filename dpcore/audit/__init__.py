"""What an attacker proves: distinguishers, and lower bounds of what was lost."""
