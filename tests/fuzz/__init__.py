"""Random calls of the operator: what is valid must be right, what is not must be refused in words that name it.

python -m tests.fuzz --calls 20000 --seed 0
"""
