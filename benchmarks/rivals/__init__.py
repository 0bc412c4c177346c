"""Adapters to third-party methods, installed by the extra `bench`, and to ours."""
