def short_list(ranked, count):
    """The names of the first `count` candidates of a ranking that differ enough to be worth a
    measurement.

    ranked: tuples (name, cut, shape), the most promising first. cut: how images and channels
    are cut, (tile_h, tile_w, images, split): output pixels, of how many images, by how many
    thread blocks. shape: (slice, warps). Of each cut at most two candidates are taken, and
    those two must differ in slice, in warps or in both. Fewer than `count` if there are no
    more.
    """
    # BEGIN SOLUTION
    # write: the names of the candidates worth a measurement
    taken, shapes = [], {}
    for name, cut, shape in ranked:
        of_cut = shapes.setdefault(cut, [])
        if len(taken) < count and len(of_cut) < 2 and shape not in of_cut:
            of_cut.append(shape)
            taken.append(name)
    return taken
    # END SOLUTION
