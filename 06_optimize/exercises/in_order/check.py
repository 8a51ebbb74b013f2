from itertools import islice

from common.check import expect
from common.check.trials import python_random


def name(number, copy=0):
    return f"{number}{['a', 'b', 'c'][copy]}"


def wanted(arrived, written):
    """(the results, how many arrivals had been read when each one was yielded)."""
    waiting, following, results, read = {}, written, [], []
    for count, (number, result) in enumerate(arrived, start=1):
        if number >= following:
            waiting.setdefault(number, result)
        while following in waiting:
            results.append(waiting.pop(following))
            read.append(count)
            following += 1
    return results, read


def check(in_order):
    def compare(arrived, written, hint):
        read, when = 0, []

        def source():
            nonlocal read
            for one in arrived:
                read += 1
                yield one

        results, moments = wanted(arrived, written)
        got = in_order(source(), written)
        what = f"list(in_order({arrived}, written={written}))"
        if got is None or got is ...:
            expect(got, results, what=what, hint="")  # not started yet
        found = []
        for result in islice(got, 2 * len(arrived) + 2):
            found.append(result)
            when.append(read)
        expect(found, results, what=what, hint=hint)
        late = "a result whose turn it is goes out at once, before the next one is asked for"
        expect(when, moments, what=f"for {arrived}, arrivals read when each result is yielded,", hint=late)

    compare([(0, "0a"), (1, "1a"), (2, "2a")], 0, "results that come in order go out in order")
    compare([(1, "1a"), (2, "2a"), (0, "0a"), (3, "3a")], 0, "1 and 2 wait for 0, and go out right after it")
    compare([(2, "2a"), (3, "3a")], 2, "the output has 0 and 1 already: 2 is next")
    compare([(0, "0a"), (3, "3a"), (2, "2a")], 2, "0 is in the output already: it is not written twice")
    compare([(0, "0a"), (0, "0b"), (1, "1a")], 0, "0 came twice: only one of them is written")
    compare([(1, "1a"), (1, "1b"), (0, "0a")], 0, "1 came twice while it waited: the first result counts")
    compare([(2, "2a"), (0, "0a")], 0, "1 has not come, so 2 has to wait")

    draw = python_random()
    for _ in range(30):
        count, written = draw.randint(1, 12), draw.randint(0, 4)
        arrived = [(number, name(number, copy)) for number in range(count) for copy in range(draw.choice([1, 1, 2, 3]))]
        draw.shuffle(arrived)
        compare(arrived, written, "the next number is yielded until it has not come yet; then the next arrival is read")
