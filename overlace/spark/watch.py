"""Watch Spark's jobs while they run, for a progress bar: tasks done of all."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from pyspark.sql import SparkSession

from overlace.model import Progress

EVERY = 0.3  # seconds between looks
PATIENCE = 5.0  # seconds for the last look: a JVM that hangs must not hold us


@contextmanager
def watch_jobs(spark: SparkSession, stage: str, begin: float, end: float, progress: Progress) -> Iterator[None]:
    """While the block runs, report how many tasks of its jobs are done, between two shares of the whole.

    Spark Connect does not report tasks; there the stage alone is named.
    """
    progress(begin, stage)
    if not isinstance(spark, SparkSession):
        yield
        return
    tracker, over = spark.sparkContext.statusTracker(), threading.Event()

    def look() -> None:
        with suppress(Exception):  # a JVM or a terminal that is gone is noticed by those who need it
            look_on()

    def look_on() -> None:
        while not over.wait(EVERY):
            done = total = 0
            for number in tracker.getActiveStageIds():
                info = tracker.getStageInfo(number)
                if info:
                    done, total = done + info.numCompletedTasks, total + info.numTasks
            if total and not over.is_set():
                progress(begin + (end - begin) * done / total, f"{stage}: {done:,} of {total:,} tasks")

    watcher = threading.Thread(target=look, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join(PATIENCE)
