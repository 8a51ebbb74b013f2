"""Records of measurements, and the texts, tables and figures generated from them.

results       the records: one folder of CSV tables per card
tables        texts and tables for README files and notebooks
generated     replaces the text between markers in those files
plots         rooflines, bars, ladders
figures       the plots that are stored as files
ladders       tables and plots of a ladder's records in notebooks
steps         profiles of networks as records, and back
"""
