"""How documents are read out of each kind of file: one file per format."""
