"""Values for tensors that a script reads, although kernels compute nothing.

    operator ──▶ the stub allocates ──▶ small and known?  compute it on the host, in that memory
                                    └▶ else               its output is unknown
    reader   ──▶ unknown?  make values up first ──▶ read

Device memory of the stub is host memory, so the host can compute an operator in it.
"""
