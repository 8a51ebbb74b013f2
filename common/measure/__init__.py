"""Measuring: results files, and what the simulator's trace predicts beside what the profiler counts on a GPU."""
