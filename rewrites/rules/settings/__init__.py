"""Settings of the compiler, where no edit of the source is right."""
