"""The Length Predictor (Sec. V-B): the shortest number of steps from a state to a goal, from offline states."""
