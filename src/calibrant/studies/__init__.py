"""Sensitivity studies, the papers' tables and the speed comparison."""
