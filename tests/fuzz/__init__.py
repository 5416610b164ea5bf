"""Files from elsewhere, changed in their structure: none may end pgmo, hang it, or eat the memory.

seeds      whole files of each kind
values     what is put in the place of a value
pickles    snapshots: other values, other instructions, other bytes
archives   profiles and plans: other members, fields and numbers behind a right seal
texts      traces, logs and tables: other trees, lines and cells; compressed
inputs     input number N of a seed, always the same
trial      what pgmo makes of one input
campaign   many of them, in processes that are watched

    python -m tests.fuzz --inputs 1000000
    python -m tests.fuzz --only 4711 --keep file     one of them again
"""
