"""Small models in closed form, on tasks and in context: Figures 1, 2, 4, 5, 9, 10."""
