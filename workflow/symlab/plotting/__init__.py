"""What the figures and claims of all papers share: which rows of a table they are about, and one look."""
