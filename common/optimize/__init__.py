"""What makes the whole network fast (chapter 06)."""
