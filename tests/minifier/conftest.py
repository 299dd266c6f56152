"""What the tests of the minifier share."""

import pytest
import torch._inductor.config


@pytest.fixture
def inductor():
    return torch._inductor.config
