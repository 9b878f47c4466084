"""The runner's side of truezero: the REST contract, a client and the command line."""
