"""OGBench's mazes: the maps, oracle, data recipes, tasks and simulator shared by its point and ant."""
