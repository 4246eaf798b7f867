"""Private online learning: a model is played at every tick, and learns from released sums only."""
