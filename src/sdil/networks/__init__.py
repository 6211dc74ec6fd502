"""The networks of the paper's section 4, and the plain policy that every baseline uses."""
