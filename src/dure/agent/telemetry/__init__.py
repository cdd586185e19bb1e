"""What the agent measures: layers of readings, the loop that takes them, what is kept of them."""
