# expect: the fullest bank decides: conflicts of different banks do
def wavefronts_of(words):
    """How many passes over the 32 banks one request to shared memory takes.

    words: the number of the 4-byte word that each active thread asks for; word w lies in bank w % 32. In one pass
    every bank hands out one word, to all the threads that want it.
    """
    words = set(words)
    in_bank = [sum(word % 32 == bank for word in words) for bank in range(32)]
    return sum(count - 1 for count in in_bank if count) + 1 if words else 0
