"""Which neuron of one network plays the role of which neuron of another: matching and permutation."""
