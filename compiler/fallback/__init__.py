"""`compile`: torch.compile that checks each graph and moves a failing one down the ladder."""
