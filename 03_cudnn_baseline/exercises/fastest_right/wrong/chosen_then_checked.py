# expect: choose among the rows whose error
def fastest_right(rows, arithmetic, allowed):
    """The name of the fastest implementation in an arithmetic whose results are right; None if there is none.

    rows: dicts with "name", "arithmetic", "us" (the time, less is better), "error" (relative, against the reference),
    "same_top5" and "images". Right is an error of at most `allowed`, and the same top 5 for all images.
    """
    of_it = [row for row in rows if row["arithmetic"] == arithmetic]
    best = min(of_it, key=lambda row: row["us"])
    return best["name"] if best["error"] <= allowed and best["same_top5"] == best["images"] else None
