"""The dynamo-style compiler, one stage at a time, and everything it tells about itself."""
