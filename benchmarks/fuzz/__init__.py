"""Random programs on the backend `loops`: how they are drawn, and how they are judged."""
