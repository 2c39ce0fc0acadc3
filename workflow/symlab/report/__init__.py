"""The pages that a run ends in: the report and the ledger of claims, each one file that needs nothing else."""
