"""Values where a script reads them, though kernels compute none.

    operator ──▶ the stub takes memory ──▶ small and known?  compute it on the host, into the memory
                                       └▶ else               what it has written is unknown
    reader   ──▶ unknown?  make values up first ──▶ read

Device memory of the stub is host memory, so an operator can be computed there. `mode.py` sees all
operators, `known.py` knows which memory holds what was computed or copied, `replay.py` computes,
`made_up.py` makes values up, `sized.py` has the operators whose sizes depend on values.
"""
