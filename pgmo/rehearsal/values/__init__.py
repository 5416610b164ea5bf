"""Values where a script reads them, although kernels compute none.

    operator ──▶ the stub allocates ──▶ small and known?  compute it on the host, in that memory
                                    └▶ else               its output is unknown
    reader   ──▶ unknown?  make values up first ──▶ read

Device memory of the stub is host memory, so an operator can be computed there.
"""
