"""What a paper is written with: experiments as points, and nothing that one paper alone needs."""
