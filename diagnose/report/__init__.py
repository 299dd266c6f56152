"""One `Explanation`, many renderers: terminal, HTML page, notebook, JSON, and what changed."""
