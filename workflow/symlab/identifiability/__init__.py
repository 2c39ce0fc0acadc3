"""How identifiable neurons are on the data: realization costs, swap costs, coherence and centre gaps (main paper, Section 4)."""
