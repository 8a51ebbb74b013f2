# expect: of an even number of ratios
def ratio_of(samples, a, b):
    of_a = [us for name, us in samples if name == a]
    of_b = [us for name, us in samples if name == b]
    if len(of_a) != len(of_b):
        raise ValueError("a round is broken")
    ratios = sorted(x / y for x, y in zip(of_a, of_b, strict=True))
    return ratios[len(ratios) // 2]
