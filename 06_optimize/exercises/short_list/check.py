from common.check import expect
from common.check.trials import python_random

A, B, C = (4, 8, 1, 1), (7, 7, 1, 1), (7, 7, 1, 2)


def wanted(ranked, count):
    taken, shapes = [], {}
    for name, cut, shape in ranked:
        of_cut = shapes.setdefault(cut, [])
        if len(taken) < count and len(of_cut) < 2 and shape not in of_cut:
            of_cut.append(shape)
            taken.append(name)
    return taken


def check(short_list):
    def compare(ranked, count, hint):
        expect(short_list(list(ranked), count), wanted(ranked, count), what=f"short_list({ranked}, {count})", hint=hint)

    compare([("a", A, (32, 2)), ("b", B, (32, 2))], 2, "two cuts: both are taken, though their shapes are the same")
    compare([("a", A, (32, 2)), ("b", A, (64, 4)), ("c", A, (96, 6))], 3, "of one cut two are enough")
    hint = "the second of a cut must differ from the first in its shape"
    compare([("a", A, (32, 2)), ("b", A, (32, 2))], 2, hint)
    hint = "a split is another cut: all four numbers of it count"
    compare([("a", B, (32, 2)), ("b", B, (64, 4)), ("c", C, (96, 6)), ("d", C, (32, 2))], 4, hint)
    hint = "a candidate that is passed over ends nothing and uses nothing up: look at the next one"
    compare([("a", A, (32, 2)), ("b", A, (32, 2)), ("c", A, (64, 4)), ("d", B, (64, 4))], 3, hint)
    compare([("a", A, (32, 2)), ("b", B, (64, 4)), ("c", C, (32, 2))], 2, "no more than `count`")
    compare([("a", A, (32, 2))], 5, "fewer than `count` if there are no more")
    compare([("a", A, (32, 2))], 0, "count 0 takes nothing")
    hint = "the order is that of the ranking: not cut by cut, not by name"
    compare([("z", B, (64, 4)), ("y", A, (32, 2)), ("x", B, (32, 2)), ("w", A, (64, 4))], 4, hint)
    hint = "a shape differs if slice or warps do"
    compare([("a", A, (64, 2)), ("b", A, (64, 4))], 2, hint)
    compare([("a", A, (32, 4)), ("b", A, (64, 4))], 2, hint)

    draw = python_random()
    hint = (
        "down the ranking: taken if its cut has fewer than two so far and none of this shape, until there are `count`"
    )
    compare([("a", A, (32, 2)), ("a", B, (32, 2))], 2, hint)  # names say nothing
    for length in (0, 1, 6, 15, 15, 80) * 10:
        cuts = [tuple(draw.choice([1, 2, 7, 112]) for _ in range(4)) for _ in range(draw.choice([1, 3, 12]))]
        shapes = [(draw.choice([32, 64, 1024]), draw.choice([2, 4, 8])) for _ in range(4)]
        names = [f"{draw.choice('zyxab')}{i % 9}" for i in range(length)]  # some names come again
        ranked = [(name, draw.choice([A, B, C, *cuts]), draw.choice(shapes)) for name in names]
        compare(ranked, draw.choice([0, 1, 3, 8, 100]), hint)
