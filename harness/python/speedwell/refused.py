"""The error of a command that cannot be done."""


class Refused(Exception):
    """A command that cannot be done, with stage and class of its error."""

    def __init__(self, stage, name, message):
        super().__init__(message)
        self.stage = stage
        self.name = name
