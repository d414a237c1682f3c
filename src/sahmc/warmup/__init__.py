"""What is found out before draws are made."""
