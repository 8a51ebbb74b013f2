from collections import Counter


def wavefronts_of(words):
    banks = Counter(word & 31 for word in set(words))
    return max(banks.values()) if banks else 0
