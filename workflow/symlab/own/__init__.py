"""Networks and data that users bring: read in whatever form they have them, checked to fit, ready to compute with."""
