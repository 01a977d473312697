"""OGBench's point in a maze."""
