"""Rules that draw a boundary around what cannot become a graph."""
