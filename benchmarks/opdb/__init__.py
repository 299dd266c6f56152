"""PyTorch's operator database on the backend `loops`: a fixed list of samples, and their score."""
