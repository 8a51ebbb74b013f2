"""The commands of `python -m common`, one file per group; errors.py decides which errors show a traceback."""
