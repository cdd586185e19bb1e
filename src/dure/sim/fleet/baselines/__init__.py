"""Other ways to place work in a fleet, with the same queue, gang rule, packer and retry."""
