"""The theory of the paper: formal proofs in `formal/`, and one module per statement, named after it.

| statement of the paper                       | module                                                           |
| -------------------------------------------- | ---------------------------------------------------------------- |
| figure 1: where aggregators fail             | counterexamples                                                  |
| Theorem 1: n aggregators are needed          | theorem_1, intermediate_value (n = 2), families, trained_network |
| Proposition 1: n moments suffice             | proposition_1                                                    |
| Theorem 2: mean and an injective scaler      | theorem_2                                                        |
| appendix on moments, alternative aggregators | moments                                                          |
| section 2.2: scalers                         | scalers                                                          |
| slips in the published proofs, repaired      | slips                                                            |
| beyond the paper: piecewise linear messages  | piecewise_linear                                                 |

Each module's text says what is established and what is not. `theorems` lists what is proved formally, `prove` compiles
it. `find` makes the certificates of `certificates/`; `checker`, with `certificate`, `interval_checker` and
`program_checker`, re-checks them without any of the modules above. `checks` are the other rows that `evidence` collects
and `report` writes, `figures` draws, `collide` does Theorem 1 for your own aggregators, which compute with the numbers
of `smooth` or `exact` and are written down for the checker by `tracing`.
`python -m verification --help` says how to call them.
"""
