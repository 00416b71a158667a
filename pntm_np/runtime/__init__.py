"""Services that know nothing of models: files, signals, threads, progress, pages, plots."""
