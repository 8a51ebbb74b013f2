"""The commands of `python -m common`, a file a group; errors.py says what is a message and what a traceback."""
