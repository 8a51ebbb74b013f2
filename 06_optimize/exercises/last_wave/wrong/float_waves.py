# expect: whole numbers, however large
import math


def last_wave(tiles, multiprocessors, blocks):
    at_once = multiprocessors * blocks
    waves = math.ceil(tiles / at_once)
    left = tiles - (waves - 1) * at_once
    return waves, max(0, multiprocessors - left) / multiprocessors
