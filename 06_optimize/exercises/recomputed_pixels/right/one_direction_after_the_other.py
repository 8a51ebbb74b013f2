def recomputed_pixels(height, width, stride, tile_h, tile_w):
    """How often a fused kernel computes each hidden pixel, on average: 1.0 if no tile repeats
    another one's.

    height, width: of the hidden channels, which a 3×3 depthwise convolution with padding 1 and
    this stride reads. A thread block computes tile_h × tile_w output pixels; blocks cover all
    of the output, the last ones stick out. For its tile a block computes every hidden pixel
    that the windows of the tile touch, the whole rectangle, also where it sticks out of the
    image. But where a tile is as high as the output it computes the `height` rows that there
    are, and no others; and where it is as wide, the `width` columns.
    """
    out_h, out_w = -(-height // stride), -(-width // stride)

    def computed(size, out, tile):
        if tile == out:
            return size
        return sum((tile - 1) * stride + 3 for _ in range(0, out, tile))

    return computed(height, out_h, tile_h) * computed(width, out_w, tile_w) / height / width
