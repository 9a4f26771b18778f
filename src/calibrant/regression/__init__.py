"""Forecasts with mean and variance."""
