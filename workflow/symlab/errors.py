"""The exceptions whose messages are meant for the person who runs symlab."""

from signal import Signals


class UserError(Exception):
    """A mistake in the input (config, data, files) told as one sentence: what is wrong, where, and what to do.

    Scripts print the sentence without a traceback and exit with a non-zero status.
    """


class Interrupted(BaseException):
    """A signal stopped a job; like KeyboardInterrupt, nothing on the way takes it for a mistake."""

    def __init__(self, by: Signals, sentence: str):
        super().__init__(sentence)
        self.by = by
