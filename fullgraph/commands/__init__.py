"""The commands of `fullgraph`, one in each file: `add` declares it, the rest runs it."""
