"""`dure demo`: all three levels in a minute and a half, on emulated GPUs, told as they happen."""
