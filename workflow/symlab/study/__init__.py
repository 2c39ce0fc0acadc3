"""What a paper is written with: card, claims, experiments as points, tables; nothing that one paper alone needs."""
