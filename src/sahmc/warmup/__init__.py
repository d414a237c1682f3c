"""The warm-up: what is found out before draws are made."""
