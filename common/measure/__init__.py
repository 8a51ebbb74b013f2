"""Measurement on a GPU and on a CPU: time and energy, and the rooflines that times are compared with.

timing        CUDA events, CUDA graphs, medians with p5 and p95, benchmarks interleaved
environment   card, driver, versions, commit; clocks and power during a run
energy        millijoules per image, from the card's energy counter
roofline      bytes and FLOPs from shapes, and the time that a card's measured rates give for them
cpu           the roofs of one core of this computer's CPU, and times of calls on it
"""
