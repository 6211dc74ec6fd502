"""Tables, figures and the page: renders records, never loads a model."""
