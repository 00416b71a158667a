"""M_t = (1 - w_t) M_{t-1} + w_t v_t, cell by cell, and reads r_t = q_t M_t: what the heads write and read.

In the paper's symbols w_t = a^w_{t-1} and q_t = a^r_{t-1}, the addresses before the step's shift, and v_t = g(u_t).
For every write head its own memory; every read head reads all of them. The write precedes the read.
"""
