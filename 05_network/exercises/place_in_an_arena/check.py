from common.check import expect, require
from common.check.trials import python_random

SLACK = 1.05  # of what largest-first takes, over many networks


def largest_first(lifetimes, alignment):
    placed = []  # (offset, end, first, last)
    for size, first, last in sorted(lifetimes.values(), reverse=True):
        met = sorted((low, high) for low, high, begin, end in placed if begin <= last and first <= end)
        offset = 0
        for low, high in met:
            if offset + size <= low:
                break
            offset = max(offset, -(-high // alignment) * alignment)
        placed.append((offset, offset + size, first, last))
    return max(high for _, high, _, _ in placed)


def network(draw, alignment):
    """Lifetimes as a network has them: most end soon, a few last."""
    steps = draw.randint(4, 30)
    lifetimes = {}
    for i in range(steps):
        life = draw.choice([1, 1, 1, 1, 2, 3, draw.randint(3, 12)])
        size = 4 * draw.randint(1, 4000) if draw.random() < 0.9 else alignment * draw.randint(1, 60)
        lifetimes[f"t{i}"] = (size, i, min(i + life, steps))
    return lifetimes


def check(place_in_an_arena):
    def placed(lifetimes, alignment):
        """Bytes of the answer's arena. Wrong unless it is one."""
        told = lifetimes if len(lifetimes) < 4 else f"{len(lifetimes)} lifetimes"
        what = f"place_in_an_arena({told}, {alignment})"
        offsets = place_in_an_arena(dict(lifetimes), alignment)
        hint = "a whole number for each tensor, by its name"
        expect(offsets if offsets is None else sorted(offsets), sorted(lifetimes), what=f"sorted({what})", hint=hint)
        for name, offset in offsets.items():
            expect(offset, int(offset), what=f"{what}[{name!r}]", hint=hint)
            require(offset >= 0, what=f"{what} puts {name} at {offset}", hint="offsets begin at 0")
            hint = "round up to the next multiple of alignment where the tensor below does not end on one"
            require(offset % alignment == 0, what=f"{what} puts {name} at {offset}", hint=hint)
        for one, (size, first, last) in lifetimes.items():
            for other, (other_size, begin, end) in lifetimes.items():
                if one >= other or not (begin <= last and first <= end):
                    continue
                apart = offsets[one] + size <= offsets[other] or offsets[other] + other_size <= offsets[one]
                step = max(first, begin)
                if len(lifetimes) > 3:
                    hint = "go through all that it meets, those that are placed already, from the lowest to the highest"
                elif first == end or last == begin:
                    hint = (
                        "the last step of one is the first of the other: that step reads the one while it writes the"
                        " other, so both must be there"
                    )
                else:
                    hint = "two tensors that live at the same step may not share a byte: both ends of both count"
                where = f"{one} at {offsets[one]} and {other} at {offsets[other]}"
                require(apart, what=f"{what}: {where} overlap at step {step}", hint=hint)
        return max(offsets[name] + size for name, (size, _, _) in lifetimes.items())

    def at_most(lifetimes, alignment, most, hint):
        got = placed(lifetimes, alignment)
        what = f"place_in_an_arena({lifetimes}, {alignment}) takes {got} bytes, {most} would do"
        require(got <= most, what=what, hint=hint)

    at_most({"a": (100, 0, 1)}, 256, 100, "a single tensor lies at 0")
    hint = "tensors that are never there at the same step may lie at the same place"
    at_most({"a": (512, 0, 1), "b": (512, 2, 3)}, 256, 512, hint)
    at_most({"a": (512, 0, 2), "b": (512, 0, 2)}, 256, 1024, "two tensors, one above the other")
    at_most({"a": (100, 0, 2), "b": (100, 0, 2)}, 256, 356, "the next multiple of alignment above 100 is 256")
    at_most({"a": (100, 0, 2), "b": (60, 0, 2)}, 64, 188, "alignment is a parameter: here it is 64")
    at_most({"a": (256, 0, 3), "b": (512, 1, 2)}, 256, 768, "one of them lives within the life of the other")
    at_most({"a": (512, 0, 1), "b": (512, 1, 2)}, 256, 1024, "two tensors, one above the other")
    hint = "b lies above a; when a is gone there is room below b for c: look for the lowest place, not the top"
    at_most({"a": (1024, 0, 1), "b": (1024, 1, 2), "c": (1024, 2, 3)}, 256, 2048, hint)

    expect(place_in_an_arena({}, 256), {}, what="place_in_an_arena({}, 256)", hint="no tensor, no offset: {}")
    hint = "sizes are whole numbers of bytes, however large: 2⁵³ + 1 is no float"
    large = {"a": (2**53 + 1, 0, 2), "b": (2**40, 0, 2), "c": (1, 0, 2)}
    at_most(large, 1, 2**53 + 2**40 + 2, hint)
    at_most({"b": (7, 0, 0), "a": (5, 0, 0)}, 3, 14, "an alignment need not be a power of two: here it is 3")

    draw = python_random()
    taken = best = 0
    for i in range(120):
        alignment = draw.choice([1, 16, 48, 64, 256, 4096])
        lifetimes = network(draw, alignment)
        if i % 10 == 0:  # large sizes, other names and another order
            names = [f"{draw.choice(['z', 'a', '/'])}{j}" for j in range(len(lifetimes))]
            lives = [(size * 2**20 + 1, *life) for size, *life in lifetimes.values()]
            draw.shuffle(lives)
            lifetimes = dict(zip(names, lives, strict=True))
            placed(lifetimes, alignment)
            continue
        taken += placed(lifetimes, alignment)
        best += largest_first(lifetimes, alignment)
    hint = (
        "which tensor is placed first matters: the large ones, while there is room at the bottom; and each as low as"
        " it can lie, in a gap if there is one"
    )
    what = f"120 networks' arenas take {taken / best:.2f} times what they need if the largest tensors are placed first"
    require(taken <= SLACK * best, what=what, hint=hint)
