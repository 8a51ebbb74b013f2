"""The folder in which a course is done: work/, beside the sources and ignored by git.

links.py      the last cell of each notebook: the one before, the chapter, the one behind
markup.py     what a learner is to write, marked in the sources
progress.py   what has been done: exercises, hints, predictions, milestones, in work/progress.json
predict.py    guesses before a number is shown, and how far off they were
"""
