"""Other people's files to and from demonstrations; one module per format."""
