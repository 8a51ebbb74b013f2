from statistics import geometric_mean


def mean_speed_up(ours, theirs):
    ratios = [min(theirs[b]) / min(us) for b, us in ours.items() if us and theirs.get(b, [])]
    return (geometric_mean(ratios), len(ratios)) if ratios else (None, 0)
