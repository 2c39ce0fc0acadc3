"""The one exception whose message is meant for the person who runs symlab."""


class UserError(Exception):
    """A mistake in the input (config, data, files) told as one sentence: what is wrong, where, and what to do.

    Scripts print the sentence without a traceback and exit with a non-zero status.
    """
