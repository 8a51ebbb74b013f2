# expect: a division of whole numbers, //, is exact
def sets_needed(bytes_of_one_set, l2_bytes):
    return max(2, int(2 * l2_bytes / bytes_of_one_set) + 1)
