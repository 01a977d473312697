"""OGBench's mazes: maps, oracle, data recipes, tasks and simulator that its point and its ant share."""
