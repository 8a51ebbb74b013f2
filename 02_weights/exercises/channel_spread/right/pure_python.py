def channel_spread(weight):
    ranges = [max(abs(number) for number in channel.ravel().tolist()) for channel in weight]
    ranges = [largest for largest in ranges if largest]
    return max(ranges) / min(ranges) if ranges else 1.0
