"""Settings shared by every test."""

import signal

from hypothesis import settings

settings.register_profile("dure", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("dure")

# What this process ignores, as under nohup or in the background, programs would inherit.
for _number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM):
    if signal.getsignal(_number) == signal.SIG_IGN:
        signal.signal(_number, signal.SIG_DFL)
