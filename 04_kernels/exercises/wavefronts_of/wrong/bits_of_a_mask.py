# expect: however far apart they are
def wavefronts_of(words):
    rows = {}
    for word in words:
        rows.setdefault(word % 32, set()).add(word // 32 % 1024)
    return max((len(found) for found in rows.values()), default=0)
