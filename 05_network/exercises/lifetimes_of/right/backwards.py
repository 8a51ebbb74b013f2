def lifetimes_of(steps, input, output):
    end = len(steps)
    last = {input: end, output: end}
    first = {input: 0}
    for number in reversed(range(end)):
        reads, writes = steps[number]
        for name in (*reads, *writes):
            last.setdefault(name, number)
        for name in writes:
            first[name] = number
    return {name: (first[name], last[name]) for name in first}
