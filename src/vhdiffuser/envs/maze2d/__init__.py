"""Point mazes: D4RL's maze2d, and any map of one's own."""
