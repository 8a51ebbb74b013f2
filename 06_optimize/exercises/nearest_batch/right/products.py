def nearest_batch(searched, batch):
    best = None
    for n in sorted(searched, reverse=True):
        if best is None:
            best = n
            continue
        big, small = max(n, batch), min(n, batch)
        best_big, best_small = max(best, batch), min(best, batch)
        if big * best_small < best_big * small:
            best = n
    return best
