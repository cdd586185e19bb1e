"""What a member decides, without a clock and without hands: what is wanted, seen, started, told."""
