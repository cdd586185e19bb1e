"""What the benches of real programs share: measurements kept, figures, pictures, agents."""
