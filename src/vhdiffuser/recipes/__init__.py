"""Recipes: everything that a training needs beside the data, as values; and the trainings themselves."""
