"""How good a policy is: on recorded steps, and in an environment."""
