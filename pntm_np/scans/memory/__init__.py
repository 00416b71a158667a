"""M_t = (1 - w_t) M_{t-1} + w_t v_t, cell by cell, and r_t = q_t M_t: what heads write and read.

In the paper's symbols, w_t = a^w_{t-1} and q_t = a^r_{t-1} are the addresses before the shift, and v_t = g(u_t).
Each write head has its own memory, and every read head reads all of them. The write precedes the read.
"""
