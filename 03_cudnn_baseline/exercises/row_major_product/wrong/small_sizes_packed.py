# expect: its row's length
def row_major_product(M, N, K, transpose_a, transpose_b):
    def leading(size):
        return min(size, 65535)

    return {
        "transa": "T" if transpose_b else "N",
        "transb": "T" if transpose_a else "N",
        "m": N,
        "n": M,
        "k": K,
        "lda": leading(K if transpose_b else N),
        "ldb": leading(M if transpose_a else K),
        "ldc": leading(N),
    }
