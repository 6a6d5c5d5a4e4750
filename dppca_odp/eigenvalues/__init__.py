"""Eigenvalue methods: one file each, siblings that never meet."""
