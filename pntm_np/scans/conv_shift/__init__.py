"""a_t[i] = sum over offsets j in (-1, 0, +1) of a_{t-1}[i - j] s_t[j], cyclic: how soft shifts move a head."""
