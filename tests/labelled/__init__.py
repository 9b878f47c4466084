"""Labelled answers, labelled lives of agents, and the player that takes them through our code."""
