def fastest_right(rows, precision, allowed):
    """The name of the fastest implementation in a precision whose results are right; None if
    there is none.

    rows: dicts with "name", "precision", "us" (the time, less is better), "error" (relative,
    against the reference), "same_top5" and "images". Right is an error of at most `allowed`,
    and the same top 5 for all images.
    """
    # BEGIN SOLUTION
    # write: the name of the fastest right implementation, or None
    right = [
        row
        for row in rows
        if row["precision"] == precision
        and row["error"] <= allowed
        and row["same_top5"] == row["images"]
    ]
    return min(right, key=lambda row: row["us"])["name"] if right else None
    # END SOLUTION
