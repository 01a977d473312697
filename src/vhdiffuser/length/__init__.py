"""The Length Predictor (Sec. V-B): shortest number of steps from a state to a goal, learned from offline states."""
