"""``python -m calibrant``."""

from calibrant.cli import main

main()
