"""Programs with known graph breaks, for the demo, the tests and the README."""
