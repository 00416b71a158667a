"""M_t = (1 - a_t) M_{t-1} + a_t v_t, cell by cell, and reads q_t M_t: what the heads write and read.

For every write head its own memory; every read head reads all of them. The write precedes the read.
"""
