"""The kernels run on a GPU where there is one, and in Triton's interpreter on the CPU where there is none."""

import os

import torch

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"  # Triton reads it when it is imported first, so before any test's imports

import pytest


@pytest.fixture
def device():
    return "cuda" if torch.cuda.is_available() else "cpu"
