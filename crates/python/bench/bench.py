"""What calls cost from Python: a volume in memory against os and fsspec on a tmpfs.

`cargo xtask bench python [--quick] [--record]` runs it in a virtual environment with a release
build. What is compared alternates; medians are shown, with half of their 95 % interval.
"""

import argparse
import json
import math
import os
import platform
import shutil
import statistics
import sys
import tempfile
import threading
import time

import fsspec

import hearth_fs

RECORDS = os.path.join(os.path.dirname(__file__), "..", "..", "..", "docs", "benchmarks")
BLOCK = b"x" * 4096
LISTED = 100
BATCH = 1000


class Tmpfs:
    """Calls of os in a directory of a tmpfs."""

    name = "tmpfs"

    def __init__(self):
        self.top = tempfile.mkdtemp(prefix="hearth-bench-", dir="/dev/shm")
        self.fs = fsspec.filesystem("file", auto_mkdir=False)

    def stat(self, path):
        stat = os.stat

        def run(times):
            for _ in range(times):
                stat(path)

        return run

    def read(self, path):
        def run(times):
            for _ in range(times):
                fd = os.open(path, os.O_RDONLY)
                os.read(fd, 4096)
                os.close(fd)

        return run

    def create(self, path):
        flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY

        def run(times):
            for _ in range(times):
                os.close(os.open(path, flags))
                os.unlink(path)

        return run

    def stat_batch(self, paths):
        def run(times):
            for _ in range(times // len(paths)):
                [os.stat(path) for path in paths]

        return run

    def read_batch(self, paths):
        one = [self.read(path) for path in paths]

        def run(times):
            for _ in range(times // len(paths)):
                for each in one:
                    each(1)

        return run

    def write_batch(self, paths):
        flags = os.O_CREAT | os.O_TRUNC | os.O_WRONLY

        def run(times):
            for _ in range(times // len(paths)):
                for path in paths:
                    fd = os.open(path, flags)
                    os.write(fd, BLOCK)
                    os.close(fd)

        return run

    def close(self):
        self.fs.rm(self.top, recursive=True)


class Hearth:
    """The calls of a volume in memory that do the same."""

    name = "lib"

    def __init__(self, source="memory:?size=1GiB"):
        self.volume = hearth_fs.open(source, create=True)
        self.process = self.volume.process()
        self.top = "/bench"
        self.process.mkdir(self.top)
        self.fs = fsspec.filesystem("hearth", volume=self.volume, auto_mkdir=False)

    def stat(self, path):
        stat = self.process.stat

        def run(times):
            for _ in range(times):
                stat(path)

        return run

    def read(self, path):
        read_bytes = self.process.read_bytes

        def run(times):
            for _ in range(times):
                read_bytes(path)

        return run

    def create(self, path):
        touch, unlink = self.process.touch, self.process.unlink

        def run(times):
            for _ in range(times):
                touch(path, 0o666, False)
                unlink(path)

        return run

    def stat_batch(self, paths):
        stat_many = self.process.stat_many

        def run(times):
            for _ in range(times // len(paths)):
                stat_many(paths)

        return run

    def read_batch(self, paths):
        read_many = self.process.read_many

        def run(times):
            for _ in range(times // len(paths)):
                read_many(paths)

        return run

    def write_batch(self, paths):
        write_many = self.process.write_many
        files = [(path, BLOCK) for path in paths]

        def run(times):
            for _ in range(times // len(paths)):
                write_many(files)

        return run

    def close(self):
        self.volume.close()


class Released(Hearth):
    """The same calls on a store that has all in memory: each releases the interpreter's lock."""

    name = "lib-released"

    def __init__(self):
        self.place = tempfile.mkdtemp(prefix="hearth-bench-", dir="/dev/shm")
        super().__init__(f"store:{self.place}/volume")

    def close(self):
        super().close()
        shutil.rmtree(self.place)


CALLS = {
    "stat": ("stat", 1),
    "open, read 4 KiB, close": ("read", 1),
    "create and unlink": ("create", 1),
    "stat_many of 100": ("stat_batch", 100),
    "stat_many of 1000": ("stat_batch", BATCH),
    "read_many of 100, 4 KiB each": ("read_batch", 100),
    "read_many of 1000, 4 KiB each": ("read_batch", BATCH),
    "write_many of 100, 4 KiB each": ("write_batch", 100),
    "write_many of 1000, 4 KiB each": ("write_batch", BATCH),
}


def fsspec_calls(side):
    """Calls of fsspec by name, each on small files."""
    fs, top = side.fs, side.top
    one = f"{top}/one"
    listed = f"{top}/listed"
    return {
        "fsspec info": lambda: fs.info(one),
        "fsspec cat of 4 KiB": lambda: fs.cat(one),
        "fsspec pipe of 4 KiB": lambda: fs.pipe(one, BLOCK),
        "fsspec ls of 100": lambda: fs.ls(listed, detail=True),
        "fsspec open, read 4 KiB": lambda: read_open(fs, one),
    }


def read_open(fs, path):
    with fs.open(path, "rb") as file:
        return file.read()


def filled(side):
    """Makes the files that are looked at."""
    side.fs.pipe({f"{side.top}/one": BLOCK})
    side.fs.makedirs(f"{side.top}/listed")
    for number in range(LISTED):
        side.fs.pipe(f"{side.top}/listed/{number}", b"")
    for task in range(2):
        side.fs.makedirs(f"{side.top}/{task}")
        for number in range(BATCH):
            side.fs.pipe(f"{side.top}/{task}/{number}", BLOCK)


def work(side, kind, batch, task):
    """The work of one thread: on files of its own."""
    own = f"{side.top}/{task}"
    make = getattr(side, kind)
    if batch > 1:
        return make([f"{own}/{number}" for number in range(batch)])
    return make(f"{own}/new" if kind == "create" else f"{own}/7")


def rate(jobs, seconds):
    """Calls per second of threads that all run for about `seconds`."""
    step = BATCH
    counts = [0] * len(jobs)
    start = threading.Barrier(len(jobs) + 1)
    end = threading.Event()

    def run(at):
        job = jobs[at]
        start.wait()
        while not end.is_set():
            job(step)
            counts[at] += step

    threads = [threading.Thread(target=run, args=(at,)) for at in range(len(jobs))]
    for thread in threads:
        thread.start()
    start.wait()
    began = time.perf_counter()
    time.sleep(seconds)
    end.set()
    for thread in threads:
        thread.join()
    return sum(counts) / (time.perf_counter() - began)


def interval(values):
    """Half of the 95 % interval of the median, by order statistics' usual normal bound."""
    if len(values) < 3:
        return 0.0
    return 1.96 * 1.253 * statistics.stdev(values) / math.sqrt(len(values))


def measure(rounds, seconds, only):
    sides = [Tmpfs(), Hearth(), Released()]
    for side in sides:
        filled(side)
    cells = {}
    try:
        for _ in range(rounds):
            for workload, (kind, batch) in CALLS.items():
                for tasks in (1, 2):
                    for side in sides:
                        if only and only not in workload:
                            continue
                        jobs = [work(side, kind, batch, task) for task in range(tasks)]
                        key = (workload, side.name, tasks)
                        cells.setdefault(key, []).append(rate(jobs, seconds))
            for side in sides[:2]:
                for workload, call in fsspec_calls(side).items():
                    if only and only not in workload:
                        continue

                    def job(times, call=call):
                        for _ in range(max(times // 200, 1)):
                            call()

                    # A job does a part of what it counts.
                    key = (workload, side.name, 1)
                    cells.setdefault(key, []).append(rate([job], seconds) / 200)
    finally:
        for side in sides:
            side.close()
    return cells


def processor():
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        models = [line.split(":", 1)[1].strip() for line in file if line.startswith("model name")]
    return f"{models[0] if models else platform.machine()}, {os.cpu_count()} cores"


TARGETS = {"tmpfs": "tmpfs", "lib": "hearth", "lib-released": "lock released"}


def table(cells):
    """The rows that are shown: microseconds, and what they are compared by."""
    lines = [
        "| call | tasks | tmpfs | hearth | lock released | hearth to tmpfs | two tasks to one |",
        "|---|---:|---:|---:|---:|---:|---|",
    ]
    for workload, tasks in sorted({(w, t) for w, _, t in cells}, key=order):
        shown, scaled, rates = [], [], {}
        for target in TARGETS:
            values = cells.get((workload, target, tasks))
            if values is None:
                shown.append("")
                continue
            micros = [1e6 / value for value in values]
            shown.append(f"{statistics.median(micros):.2f} ±{interval(micros):.2f}")
            rates[target] = statistics.median(values)
            if tasks == 2:
                one = statistics.median(cells[workload, target, 1])
                scaled.append(f"{rates[target] / one:.2f}")
        ratio = f"{rates['lib'] / rates['tmpfs']:.1f}"
        row = [workload, str(tasks), *shown, ratio, ", ".join(scaled)]
        lines.append("| " + " | ".join(row) + " |")
    return lines


def order(row):
    workload, tasks = row
    names = list(CALLS)
    return (names.index(workload) if workload in names else len(names), workload, tasks)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="short runs, three of each")
    parser.add_argument("--rounds", type=int, help="how often each cell is measured")
    parser.add_argument(
        "--first", action="store_true", help="runs before all others (SCHED_FIFO); as root"
    )
    parser.add_argument("--only", help="calls with this in their name")
    parser.add_argument(
        "--record", action="store_true", help="writes docs/benchmarks/python.txt and python.jsonl"
    )
    parser.add_argument("--commit", default="unknown", help="the commit that is measured")
    given = parser.parse_args()
    rounds, seconds = (3, 0.1) if given.quick else (9, 0.2)
    rounds = given.rounds or rounds
    load = os.getloadavg()[0]
    if given.first:
        # Threads that are made later have it from this one.
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    cells = measure(rounds, seconds, given.only)
    heading = [
        "# `cargo xtask bench python`",
        "",
        f"Commit {given.commit}; rows: `python.jsonl`. Python {platform.python_version()}, fsspec "
        f"{fsspec.__version__}.",
        f"{processor()}; load {load:.1f} before, {os.getloadavg()[0]:.1f} after"
        + (", with SCHED_FIFO before all of it." if given.first else "."),
        "Microseconds a file; with two tasks (threads), of both together. `lock released`: a store",
        "whose files are in memory, where each call releases the interpreter's lock. The last column",
        "has tmpfs, hearth, lock released.",
        "",
    ]
    lines = heading + table(cells)
    print("\n".join(lines))
    if given.record:
        with open(os.path.join(RECORDS, "python.txt"), "w", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")
        with open(os.path.join(RECORDS, "python.jsonl"), "w", encoding="utf-8") as file:
            head = {"command": "cargo xtask bench python", "commit": given.commit}
            file.write(json.dumps(head, separators=(",", ":")) + "\n")
            for (workload, target, tasks), values in cells.items():
                row = {
                    "bench": "python",
                    "ci95": round(interval(values), 1),
                    "metric": "files_per_s",
                    "runs": len(values),
                    "target": target,
                    "tasks": tasks,
                    "unit": "1/s",
                    "value": round(statistics.median(values), 1),
                    "workload": workload,
                }
                file.write(json.dumps(row, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    sys.exit(main())
