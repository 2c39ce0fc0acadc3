"""Commands for people who bring their own models: what ``python -m symlab`` offers."""
