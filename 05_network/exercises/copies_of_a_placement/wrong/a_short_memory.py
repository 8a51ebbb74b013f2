# expect: a tensor is copied
def copies_of_a_placement(steps, sizes, on_gpu):
    places, copied = {"input": {False}}, []
    for number, ((reads, writes), gpu) in enumerate(zip(steps, on_gpu, strict=True)):
        for name in reads:
            if gpu not in places[name] and number < 20:
                places[name].add(gpu)
                copied.append(name)
        places[writes] = {gpu}
    if places[steps[-1][1]] == {True}:
        copied.append(steps[-1][1])
    return len(copied), sum(sizes[name] for name in copied)
