def energy_per_image(times, counter, launches, batch, idle_w):
    if list(counter) != sorted(counter):
        raise ValueError("an energy counter never goes back")
    fresh = [i for i in range(1, len(counter)) if counter[i] > counter[i - 1]]
    if len(fresh) <= 1:
        raise ValueError("two changes are needed")
    i, j = fresh[0], fresh[-1]
    net_j = (counter[j] - counter[i]) / 1000 - idle_w * (times[j] - times[i])
    return 1000 * net_j / (launches[j] - launches[i]) / batch
