"""Wrappers around Hugging Face classes that compute vocabulary projections only where a label is."""
