"""The learner's side of the course, in the folder work/, which git ignores.

links.py        the last cell of each notebook: links to the previous notebook, the chapter and the next notebook
markup.py       regions of the sources that a learner writes
progress.py     the record of exercises, hints, predictions and milestones, work/progress.json
predict.py      guesses made before a number is shown, and how far off they were
engine.py       the learner's package `engine`; engine_files.py: what its files must define
milestones.py   the learner's engine on held-out networks (cases.py, spellings.py), judged by judging.py
"""
