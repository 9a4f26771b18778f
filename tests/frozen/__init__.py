"""What users see, frozen: the judge of every change that should change nothing.

``python -m frozen`` (standing in ``tests/``) compares the answers of today's code with the stored ones; ``--write --why
"reason"`` stores new ones and lists what moved in ``moved.md``; ``--mutate`` shows that the judge has eyes.
"""

#: Modules of this package with a function `cases()`. Their answers stand in ``answers/<family>.json``.
FAMILIES = ("verbs", "commands", "corpus", "exports", "written", "declarations", "values", "inference", "rest")
