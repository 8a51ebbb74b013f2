# expect: the number of different sectors
def sectors_of(addresses, size):
    return len({(address & 0xFFFFFFFF) // 32 for address in addresses})
