"""Instruments: what times and meters on a GPU, and the roofs that times are held against.

timing        CUDA events, graphs, medians with p5 and p95, A and B in turn
environment   card, driver, versions, commit; clocks and power while something runs
energy        millijoules per image, from the card's energy counter
roofline      bytes and FLOPs from shapes, the least time that they take on a card
"""
