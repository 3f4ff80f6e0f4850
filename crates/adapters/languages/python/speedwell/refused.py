"""The error of a command that is refused."""


class Refused(Exception):
    """A refused command, with the stage and class of its error."""

    def __init__(self, stage, name, message):
        super().__init__(message)
        self.stage = stage
        self.name = name
