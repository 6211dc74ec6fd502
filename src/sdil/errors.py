"""The one error a user can cause and mend: its message names the place and says what to do."""


class InputError(ValueError):
    """Data, files or options that cannot be used as they are."""
