"""A cart with two driven wheels in a room with two pillars."""
