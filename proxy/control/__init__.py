"""The control plane: one module of functions per subject, all of one context, `queries.Service`."""
