from collections import Counter


def short_list(ranked, count):
    of_cut, seen, names = Counter(), set(), []
    for name, cut, shape in ranked:
        if len(names) == count:
            break
        if of_cut[cut] == 2 or (cut, shape) in seen:
            continue
        of_cut[cut] += 1
        seen.add((cut, shape))
        names.append(name)
    return names
