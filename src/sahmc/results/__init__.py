"""Results of a run: plain records, and everything computed from them."""
