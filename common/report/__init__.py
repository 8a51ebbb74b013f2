"""What is made of measurements: the tables that keep them, and the texts, tables and figures that show them.

results       what was measured, a folder of text tables for each card
tables        the texts and tables in README files and notebooks
generated     text between markers in those files
plots         rooflines, bars, ladders
figures       the plots that are files
ladders       what notebooks show of a ladder's records
steps         profiles of networks as records, and back
"""
