"""The paper's card."""
