#!/usr/bin/env bash
# persist-queue 1.1.0 (PyPI), Python 3.11.
#
# Guess: FILOSQLiteQueue gives what was put last, whether it commits by itself or at task_done().
# task_done() is for one item, as in the queue of the standard library. A queue of unique items
# passes over what it already has in it.
# Seen: with auto_commit=False, as batches have it, FILOSQLiteQueue gives the oldest item first, and
# what is put in between comes last: it is a FIFO queue. One task_done() of Queue (files) or of
# FIFOSQLiteQueue without auto_commit is for all items that were given out so far: two workers take
# one item each, one of them is done, the program ends, and the other's item is gone. UniqueAckQ
# passes over what it has ever had: a job that was acknowledged, or has failed for good, is
# dropped when it is put again, for as long as clear_acked_data keeps its last 1000; put() returns
# None then, and a number otherwise. UniqueQ takes the job again.
# So a stack keeps auto_commit=True, tasks that must not be lost go to SQLiteAckQueue, and
# unique jobs that recur get a number into the item.
set -eu
shopt -s inherit_errexit
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
python3 -m venv venv
venv/bin/pip -q --disable-pip-version-check install persist-queue==1.1.0
cat > probe.py <<'PYTHON'
import persistqueue as pq


def last_in(name, **options):
    queue = pq.FILOSQLiteQueue(name, **options)
    for item in (1, 2, 3):
        queue.put(item)
    given = [queue.get()]
    queue.put(4)
    given += [queue.get() for _ in range(3)]
    print(f"{name}: 1 2 3 put, one got, 4 put: {' '.join(map(str, given))}")


def two_taken(name, opened):
    queue = opened(name)
    for item in (1, 2, 3):
        queue.put(item)
    taken = [queue.get(), queue.get()]
    queue.task_done()
    del queue
    print(f"{name}: {taken} taken, one task_done, opened again: {opened(name).get()}")


def unique(name, queue, done):
    queue.put("job")
    done(queue, queue.get())
    returned = queue.put("job")
    print(f"{name}: put, done, put: {returned}, {queue.qsize()} waiting")
    return queue


last_in("filo")
last_in("filo-batch", auto_commit=False)
two_taken("files", pq.Queue)
two_taken("fifo-batch", lambda name: pq.FIFOSQLiteQueue(name, auto_commit=False))
unique("unique", pq.UniqueQ("unique", auto_commit=True), lambda queue, item: queue.task_done())
acked = unique("unique-ack", pq.UniqueAckQ("unique-ack"), lambda queue, item: queue.ack(item))
unique("unique-failed", pq.UniqueAckQ("failed"), lambda queue, item: queue.ack_failed(item))
acked.clear_acked_data()
acked.put("job")
print(f"unique-ack: cleared, put: {acked.qsize()} waiting")
acked.clear_acked_data(keep_latest=0)
acked.put("job")
print(f"unique-ack: cleared to 0, put: {acked.qsize()} waiting")
PYTHON
seen=$(venv/bin/python probe.py)
printf '%s\n' "$seen"
expected="filo: 1 2 3 put, one got, 4 put: 3 4 2 1
filo-batch: 1 2 3 put, one got, 4 put: 1 2 3 4
files: [1, 2] taken, one task_done, opened again: 3
fifo-batch: [1, 2] taken, one task_done, opened again: 3
unique: put, done, put: 2, 1 waiting
unique-ack: put, done, put: None, 0 waiting
unique-failed: put, done, put: None, 0 waiting
unique-ack: cleared, put: 0 waiting
unique-ack: cleared to 0, put: 1 waiting"
[ "$seen" = "$expected" ] || { echo "this is no longer what is described above" >&2; exit 1; }
