def row_major_product(M, N, K, transpose_a, transpose_b):
    call = dict(m=N, n=M, k=K, ldc=N)
    call["transa"], call["lda"] = ("T", K) if transpose_b else ("N", N)
    call["transb"], call["ldb"] = ("T", M) if transpose_a else ("N", K)
    return call
