"""The check of a learner's own rung: check.py, judged as an exercise's is."""
