def last_wave(tiles, multiprocessors, blocks):
    full, left = divmod(tiles, multiprocessors * blocks)
    if left == 0:
        return full, 0.0
    busy = min(left, multiprocessors)
    return full + 1, (multiprocessors - busy) / multiprocessors
