def summary_of(times_us, warm_up):
    kept = sorted(times_us[warm_up:])
    if len(kept) == 0:
        raise ValueError("every sample belongs to the warm-up")

    def percentile(p):
        place = p / 100 * (len(kept) - 1)
        low = int(place)
        high = min(low + 1, len(kept) - 1)
        return float(kept[low] + (place - low) * (kept[high] - kept[low]))

    return percentile(50), percentile(5), percentile(95)
