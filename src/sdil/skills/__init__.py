"""Phase 1 of the paper: skills are discovered, and with them the paper's own score of steps."""
