"""Verdicts on the claims of a paper: tests, intervals, corrections and the one rule that turns them into a word."""
