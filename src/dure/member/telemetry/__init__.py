"""What a member measures of its cluster and of itself."""
