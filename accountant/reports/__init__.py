"""Statements for people: as text, and as one page to print or read on a phone."""
