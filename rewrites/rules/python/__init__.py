"""Python that TorchDynamo does not enter."""
