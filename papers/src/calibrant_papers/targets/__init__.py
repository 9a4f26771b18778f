"""The papers' tables and figures, one file per group of targets."""
