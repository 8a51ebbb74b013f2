# expect: the smallest ratio
import math


def nearest_batch(searched, batch):
    def far(n):
        return round(abs(math.log(n / batch)), 4), -n

    return min(searched, key=far, default=None)
