"""The machine code of kernels, on any machine: compiled by NVRTC, disassembled by nvdisasm (see inspection.py)."""

from .inspection import Inspection, inspect
from .occupancy import CARDS, Occupancy, occupancy

__all__ = ["CARDS", "Inspection", "Occupancy", "inspect", "occupancy"]
