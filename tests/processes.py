"""Programs that tests start: reading all they print, also after single lines were read."""

import subprocess
import threading


def read_to_end(process: "subprocess.Popen[str]", limit_s: float) -> tuple[str, str]:
    """What a program still prints, on both outputs, once it has ended within the limit.

    `communicate` reads the pipe itself and so loses what `readline` took into its buffer.
    """
    errors: list[str] = []
    stderr = process.stderr
    listener = threading.Thread(
        target=lambda: errors.append(stderr.read() if stderr is not None else "")
    )
    ender = threading.Timer(limit_s, process.kill)
    listener.start()
    ender.start()
    try:
        out = process.stdout.read() if process.stdout is not None else ""
        listener.join()
        process.wait()
    finally:
        in_time = ender.is_alive()
        ender.cancel()
        for pipe in (process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()
    if not in_time:
        raise subprocess.TimeoutExpired(process.args, limit_s, out, errors[0])
    return out, errors[0]
