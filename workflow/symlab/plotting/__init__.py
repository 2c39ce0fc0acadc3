"""What the figures of all papers, of the report and of the command line share: one look, lines, axes, files."""
