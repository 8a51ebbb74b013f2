# expect: blocks, rounded up
def recomputed_pixels(height, width, stride, tile_h, tile_w):
    step = 1 if stride == 1 else 2
    out_h, out_w = (height - 1) // stride + 1, (width - 1) // stride + 1
    tiles = -(-out_h // tile_h) * -(-out_w // tile_w)
    rows = height if tile_h == out_h else (tile_h - 1) * step + 3
    columns = width if tile_w == out_w else (tile_w - 1) * step + 3
    return tiles * rows * columns / (height * width)
