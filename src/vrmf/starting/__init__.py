"""Where fits start."""
