# expect: down the ranking
def short_list(ranked, count):
    taken, shapes = [], {}
    for name, cut, shape in ranked:
        of_cut = shapes.setdefault(cut, [])
        if len(taken) < count and len(of_cut) < 2 and shape not in of_cut and name not in taken:
            of_cut.append(shape)
            taken.append(name)
    return taken
