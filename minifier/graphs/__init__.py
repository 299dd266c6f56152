"""FX graphs with their inputs: values, parts, fingerprints, and what runs."""
