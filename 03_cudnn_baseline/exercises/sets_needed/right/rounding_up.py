def sets_needed(bytes_of_one_set, l2_bytes):
    needed = -(-(2 * l2_bytes + 1) // bytes_of_one_set)
    return needed if needed > 2 else 2
