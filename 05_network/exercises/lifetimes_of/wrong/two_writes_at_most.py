# expect: from the step that writes it
def lifetimes_of(steps, input, output):
    end = len(steps)
    lives = {input: (0, end)}
    for i, (reads, writes) in enumerate(steps):
        for name in reads[:3]:
            lives[name] = lives[name][0], max(lives[name][1], i)
        for name in writes:
            lives[name] = i, i
    lives[output] = lives[output][0], end
    return lives
