"""Errors that speak to the person at the keyboard: file or server, what is wrong, what to do next."""


class UserError(Exception):
    """Bad input or a refused step; its text is shown as it is, without a traceback, and the exit code is 2."""
