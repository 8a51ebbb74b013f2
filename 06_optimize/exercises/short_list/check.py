import random

from common.check import expect

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

    draw = random.Random()
    for _ in range(50):
        ranked = [
            (f"t{i}", draw.choice([A, B, C]), (draw.choice([32, 64, 96]), draw.choice([2, 4])))
            for i in range(draw.randint(0, 15))
        ]
        compare(ranked, draw.randint(1, 8), "any ranking")
