"""What the benches of every level share: reports, pages, timing, and runs in several processes."""
