"""`python -m fullgraph`."""

from fullgraph.cli import main

raise SystemExit(main())
