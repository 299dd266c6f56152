"""The commands of `fullgraph`, one a file: `add` declares it, the rest runs it."""
