def recomputed_pixels(height, width, stride, tile_h, tile_w):
    def along(size, tile):
        outputs = -(-size // stride)
        blocks = (outputs + tile - 1) // tile
        return blocks * (size if blocks == 1 and tile == outputs else stride * (tile - 1) + 3)

    return along(height, tile_h) * along(width, tile_w) / (height * width)
