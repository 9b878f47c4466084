"""The control plane's services, one class per subject."""
