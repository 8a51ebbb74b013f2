def fastest_right(rows, arithmetic, allowed):
    for row in sorted(rows, key=lambda row: row["us"]):
        if row["arithmetic"] != arithmetic or row["same_top5"] < row["images"]:
            continue
        if row["error"] <= allowed:
            return row["name"]
    return None
