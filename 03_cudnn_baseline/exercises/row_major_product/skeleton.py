def row_major_product(M, N, K, transpose_a, transpose_b):
    """The arguments with which cuBLAS computes out = a · b on row-major arrays where they lie.

    a: (M, K), or (K, M) if transpose_a, and then its transpose is a factor. b: (K, N), or (N, K) if transpose_b.
    out: (M, N). cuBLAS gets b as its A, a as its B and out as its C. Gives a dict with "transa" and "transb", each
    "N" or "T", and the numbers "m", "n", "k", "lda", "ldb", "ldc".
    """
    ...  # your code
