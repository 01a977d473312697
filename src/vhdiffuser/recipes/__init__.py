"""Recipes, i.e. all training settings besides the data, and the training functions."""
