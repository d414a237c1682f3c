"""What a run returns: plain records, and what is computed from them."""
