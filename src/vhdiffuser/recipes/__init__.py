"""Recipes: all settings of a training besides the data, as values; and the trainings themselves."""
