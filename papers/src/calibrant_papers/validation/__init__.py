"""Proof of the library's own claims: coverage and size, adversarial models, earlier findings, the automatic method."""
