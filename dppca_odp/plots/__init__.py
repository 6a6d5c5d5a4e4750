"""Pictures of releases. They take releases and nothing else, so none can show private data.

Matplotlib is imported when a picture is drawn: the command line starts sooner without it.
"""
