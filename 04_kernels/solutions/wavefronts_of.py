def wavefronts_of(words):
    """How many passes over the 32 banks one request to shared memory takes.

    words: the number of the 4-byte word that each active thread asks for; word w lies in bank
    w % 32. In one pass every bank hands out one word, to all the threads that want it.
    """
    # BEGIN SOLUTION
    # write: the number of wavefronts
    in_bank = [0] * 32
    for word in set(words):
        in_bank[word % 32] += 1
    return max(in_bank)
    # END SOLUTION
