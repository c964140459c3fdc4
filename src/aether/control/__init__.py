"""Loops: observe, plan, render, apply."""
