"""What fullgraph finds and what it costs, beside `torch._dynamo.explain`."""
