"""Point mazes: D4RL's maze2d, and custom maps."""
