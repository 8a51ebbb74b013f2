# expect: the fastest one
def fastest_right(rows, arithmetic, allowed):
    best, least = None, 10_000.0
    for row in rows:
        right = row["error"] <= allowed and row["same_top5"] == row["images"]
        if right and row["arithmetic"] == arithmetic and row["us"] < least:
            best, least = row["name"], row["us"]
    return best
