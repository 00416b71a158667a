"""h_t = (1 - z_t) h_{t-1} + z_t c_t, element by element: minGRU's gated average."""
