"""How files are written and read, whatever they hold."""
