"""Files: models, checkpoints and results, whole or not at all, without pickle."""
