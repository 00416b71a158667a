"""The paper's tables and figures from runs and benchmarks: CSV, Markdown, PNG, SVG, and one page that works offline."""
