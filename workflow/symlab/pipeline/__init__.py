"""From a config to jobs, and from their files to the ledger of claims and the report; knows no paper by name."""
