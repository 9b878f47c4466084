"""Run agents under a rollout: run, drill, doctor, demo."""
