"""Measurement on a GPU: time and energy, and the rooflines that times are compared with.

timing        CUDA events, CUDA graphs, medians with p5 and p95, benchmarks interleaved
environment   card, driver, versions, commit; clocks and power during a run
energy        millijoules per image, from the card's energy counter
roofline      bytes and FLOPs from shapes, and the least time that a card needs for them
"""
