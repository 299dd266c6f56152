"""Boolean masks and indices whose number depends on the data."""
