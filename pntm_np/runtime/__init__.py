"""What any program needs and no science is in: files, signals, threads, progress, pages, plots."""
