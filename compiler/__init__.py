"""Interface to torch.compile: its stages, their events, and isolated runs of the user's code."""
