"""What is here for Sphinx alone, or was written by it, has no tests of its own."""

collect_ignore = ["conf.py", "_extensions", "_templates", "api", "gallery", "repository"]
