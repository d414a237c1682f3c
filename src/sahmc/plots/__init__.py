"""Pictures of a result and the page about it."""
