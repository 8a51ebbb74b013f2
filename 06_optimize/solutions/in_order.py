def in_order(arrived, written):
    """Yield the results of batches in the order of their numbers, each as soon as it may go.

    arrived: an iterable of (number, result), numbers from 0, in any order. A number may come
    twice, as when a worker was killed and another one computed its batch again: the first
    result counts. If a number never comes, those after it are never yielded.
    written: an earlier run wrote the results of this many batches, 0 to written - 1; they may
    arrive, but are not yielded again. Keep no result longer than it has to wait.
    """
    # BEGIN SOLUTION
    # write: which results wait, and which number is next
    waiting, following = {}, written
    for number, result in arrived:
        if number >= following:
            waiting.setdefault(number, result)
        while following in waiting:
            yield waiting.pop(following)
            following += 1
    # END SOLUTION
