from common.check import expect
from common.check.trials import python_random, whole


def check(layout_strides):
    draw = python_random()

    def hint_of(given, want, layout):
        """What the first wrong stride tells, from the fastest index on."""
        plane = "one channel further lies a plane of H·W elements"
        picture = "from one image to the next lies a whole image of C·H·W elements"
        beside = "in NHWC the channels of a pixel lie side by side: C has the stride 1, W the stride C"
        if layout == "NCHW":
            fastest = "the last index of NCHW is the fastest: W has the stride 1"
            order = [(3, fastest), (2, "one row further down lie W pixels, not H"), (1, plane), (0, picture)]
        else:
            row = "one row further down lie W pixels, each with all its channels: C·W elements"
            order = [(1, beside), (3, beside), (2, row), (0, picture)]
        return next((hint for i, hint in order if given[i] != want[i]), "four whole numbers, for N, C, H and W")

    def compare(shape, layout):
        stride, of, order = 1, {}, []
        for index in reversed(layout):  # the last one lies closest
            of[index] = stride
            order.insert(0, stride)
            stride *= dict(zip("NCHW", shape, strict=True))[index]
        want = tuple(of[index] for index in "NCHW")
        got = layout_strides(shape, layout)
        hint = "four strides, one for each of N, C, H and W"
        if isinstance(got, list | tuple) and len(got) == 4:
            known = {
                tuple(4 * stride for stride in want): "count in elements, not in bytes",
                tuple(2 * stride for stride in want): "count in elements, not in bytes",
                tuple(order): "give the strides in the order of the logical shape, N, C, H, W, in both layouts",
            }
            hint = known.get(tuple(got), hint_of(got, want, layout))
        expect(got, want, what=f"layout_strides({shape}, {layout!r})", hint=hint)

    for layout in ("NCHW", "NHWC"):
        compare((2, 3, 5, 7), layout)
        compare((1, 4, 6, 6), layout)
        compare((1, 1, 1, 1), layout)
        compare((256, 1280, 7, 7), layout)
        for _ in range(20):
            compare(tuple(whole(draw) for _ in range(4)), layout)
