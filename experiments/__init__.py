"""The paper's experiments and the claims of its theory, made again: ``python -m experiments``."""
