"""Judgement: facts of a rollout in, a verdict with evidence out; pure, standard library only."""
