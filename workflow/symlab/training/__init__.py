"""Training of many replicas of one variant: the optimizer's recipe and the replica engine."""
