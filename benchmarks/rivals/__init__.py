"""Adapters to the methods of others, installed by the extra `bench`, and ours beside them."""
