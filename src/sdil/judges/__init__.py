"""Judges: demonstrations in, scores of steps and segments out, no policy. One file per judge."""
