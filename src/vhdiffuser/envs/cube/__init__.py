"""OGBench's arm above a table with a cube."""
