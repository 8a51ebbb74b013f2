def row_major_product(M, N, K, transpose_a, transpose_b):
    """The arguments with which cuBLAS computes out = a · b on row-major arrays where they lie.

    a: (M, K). With transpose_a it is stored as (K, M), and the factor is its transpose.
    b: (K, N). With transpose_b it is stored as (N, K), and the factor is its transpose.
    out: (M, N). cuBLAS gets b as its A, a as its B and out as its C.

    Gives a dict with "transa" and "transb", each "N" or "T", and the numbers "m", "n", "k",
    "lda", "ldb", "ldc".
    """
    # BEGIN SOLUTION
    # write: the arguments of cuBLAS
    return {
        "transa": "T" if transpose_b else "N",
        "transb": "T" if transpose_a else "N",
        "m": N,
        "n": M,
        "k": K,
        "lda": K if transpose_b else N,
        "ldb": M if transpose_a else K,
        "ldc": N,
    }
    # END SOLUTION
