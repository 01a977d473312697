"""OGBench's ant in a maze."""
