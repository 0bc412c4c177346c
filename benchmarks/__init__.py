"""One file per table or figure. Rivals are the real ones, installed by the extra `bench`."""
