"""The theory of the paper, machine-checked: one module per statement, named after it.

| statement of the paper                       | module                                                           |
| -------------------------------------------- | ---------------------------------------------------------------- |
| figure 1: where aggregators fail             | counterexamples                                                  |
| Theorem 1: n aggregators are needed          | theorem_1, intermediate_value (n = 2), families, trained_layer   |
| Proposition 1: n moments suffice             | proposition_1                                                    |
| Theorem 2: mean and an injective scaler      | theorem_2                                                        |
| appendix on moments, alternative aggregators | moments                                                          |
| section 2.2: scalers                         | scalers                                                          |
| slips in the published proofs, repaired      | slips                                                            |

Each module's text says what is established and what is not. `find` makes the certificates of `certificates/`, `checker`
and `interval_checker` re-check them without any of the modules above; `checks` are the rows that `report` writes,
`figures` draws, `collide` does Theorem 1 for your own aggregators, which are written with the functions of `smooth`.
`python -m verification --help` says how to call them.
"""
