"""Commands that this package adds to ``calibrant`` (entry point group ``calibrant.commands``)."""
