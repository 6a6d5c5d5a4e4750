"""How the tables of a ledger came to be, one file a format."""
