def recomputed_pixels(height, width, stride, tile_h, tile_w):
    """How many hidden pixels a fused kernel computes, divided by how many the image has.

    height, width: of the hidden channels, which a 3×3 depthwise convolution with padding 1 and
    this stride reads. A thread block computes tile_h × tile_w output pixels; tiles cover all
    of the output, the last ones may reach beyond it. For its tile a thread block computes the
    whole rectangle of hidden pixels that the windows of the tile read, also what lies outside
    the image. But where a tile is as high as the output (none is higher) it computes the
    `height` rows that there are, and no others; and where it is as wide, the `width` columns.
    """
    # BEGIN SOLUTION
    # write: how often a hidden pixel is computed on average
    out_h, out_w = (height - 1) // stride + 1, (width - 1) // stride + 1
    tiles = -(-out_h // tile_h) * -(-out_w // tile_w)
    rows = height if tile_h == out_h else (tile_h - 1) * stride + 3
    columns = width if tile_w == out_w else (tile_w - 1) * stride + 3
    return tiles * rows * columns / (height * width)
    # END SOLUTION
