"""A run: the loop over steps, its clock, its record and the rules by which it stops."""
