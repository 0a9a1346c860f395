"""Programs of their own that tests run: what they do cannot be done beside pytest's threads."""

import subprocess
import sys


def run(program, *arguments, code=0):
    """Runs a program; returns what it printed."""
    done = subprocess.run(
        [sys.executable, "-c", program, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout
