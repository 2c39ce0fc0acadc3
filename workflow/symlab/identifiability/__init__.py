"""How identifiable neurons are on the data: realization and swap costs, coherence, centre gaps (main paper, Sec. 4)."""
