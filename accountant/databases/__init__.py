"""Where entries are kept: an SQLite file or a PostgreSQL database, behind one face."""
