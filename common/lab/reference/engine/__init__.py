"""An inference engine, made chapter by chapter."""
