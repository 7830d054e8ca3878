"""kill -9 at random moments of trainings, of cells side by side and of data making, each continued to its end.

python -m tests.kills --kills 1000 --seed 0
"""
