"""The reference engine: what the solutions of the notebooks make together (the package engine)."""
