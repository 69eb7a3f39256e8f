"""Robust models: the path of falling weights, the rank by spectra of residuals, and the level of noise."""
