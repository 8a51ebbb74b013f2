from common.check import expect
from common.check.trials import python_random, whole


def check(row_major_product):
    draw = python_random()

    def compare(transpose_a, transpose_b, M, N, K):
        got = row_major_product(M, N, K, transpose_a, transpose_b)
        call = f"row_major_product({M}, {N}, {K}, {transpose_a}, {transpose_b})"
        row_of_a, row_of_b = M if transpose_a else K, K if transpose_b else N
        if not isinstance(got, dict):
            expect(got, {}, what=call, hint="give back a dict")
        shape = "to cuBLAS out is outᵀ, with N rows and M columns: m and n change places"
        flags = (
            "a row-major array is its transpose to cuBLAS already, and outᵀ = bᵀ · aᵀ wants just that: only an array"
            " that is transposed in memory as well gets a T; transa is for cuBLAS's A, which is b"
        )
        leading = (
            "the leading dimension is the distance from one row of the row-major array to the next: its row's length"
        )
        wanted = [
            (shape, {"m": N, "n": M, "k": K}),
            (flags, {"transa": "T" if transpose_b else "N", "transb": "T" if transpose_a else "N"}),
            (f"{leading}; for C that is N", {"ldc": N}),
            (f"{leading}, as it lies in memory, whether transposed or not", {"lda": row_of_b, "ldb": row_of_a}),
        ]
        for hint, part in wanted:
            if any(key.startswith("ld") and got.get(key) == 4 * value for key, value in part.items()):
                hint = "leading dimensions count elements, not bytes"
            expect({key: got[key] for key in part if key in got}, part, what=call, hint=hint)
        everything = {key: value for _, part in wanted for key, value in part.items()}
        expect(got, everything, what=call, hint="these eight keys, and no others")

    for transpose_a, transpose_b in ((False, False), (False, True), (True, False), (True, True)):
        compare(transpose_a, transpose_b, *draw.sample(range(1, 41), 3))
    for _ in range(20):
        compare(draw.random() < 0.5, draw.random() < 0.5, whole(draw), whole(draw), whole(draw))
