# expect: a word goes to all threads
def wavefronts_of(words):
    """How many passes over the 32 banks one request to shared memory takes.

    words: the number of the 4-byte word that each active thread asks for; word w lies in bank w % 32. In one pass
    every bank hands out one word, to all the threads that want it.
    """
    import math

    return math.gcd(words[1] - words[0], 32) if len(words) > 1 else len(words)
