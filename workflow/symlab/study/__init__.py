"""What a paper is written with: card, claims, experiments as points, cases, facets; nothing one paper alone needs."""
