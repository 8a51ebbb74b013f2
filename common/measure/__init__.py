"""Measuring on a GPU, and what is made of it; and the simulator's trace beside what the profiler counts.

timing        CUDA events, graphs, medians with p5 and p95, A and B in turn
environment   card, driver, versions, commit; clocks and power while something runs
energy        millijoules an image, from the card's energy counter
roofline      bytes and FLOPs from shapes, the least time that they take on a card
peaks         the card's roofs, measured
results       the files that keep what was measured
generated     text between markers, made from those files
tables        what stands there
plots         rooflines, bars, ladders
ladders       what notebooks show of the records of kernels
confirm       the trace beside the profiler
"""
