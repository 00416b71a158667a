"""Make the paper's tables and figures from runs and benchmarks: CSV, Markdown, PNG, SVG and one offline page."""
