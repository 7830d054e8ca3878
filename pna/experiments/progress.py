"""The progress report of a training: a bar on a terminal, elsewhere a line every few seconds."""

import sys
import time

from pna.training.run import Progress

__all__ = ["Report"]


class Report:
    """Prints progress when called after an epoch; `every` is the least number of seconds between two lines."""

    def __init__(self, every: float) -> None:
        self.every = every

    def __enter__(self) -> "Report":
        self.bar, self.printed_at, self.first = None, 0.0, None
        self.error: OSError | None = None  # of printing: nobody reads the lines any more, or the disk is full
        return self

    def __exit__(self, *_: object) -> None:
        if self.bar is not None:
            self.bar.close()

    def __call__(self, progress: Progress) -> None:
        """Update the bar, or print a line if it is time."""
        text = f"best validation {progress.best:.5f}, {progress.running} of {progress.replicas} replicas running"
        if sys.stderr.isatty():
            from tqdm import tqdm

            self.bar = self.bar or tqdm(total=progress.epochs, initial=progress.epoch - 1, unit="epoch")
            self.bar.set_postfix_str(text, refresh=False)
            self.bar.update()
            return
        now = time.monotonic()
        self.first = self.first or (progress.epoch, now)
        if now - self.printed_at >= self.every or progress.epoch == progress.epochs:
            left = ""
            if done := progress.epoch - self.first[0]:  # the pace is unknown until the second epoch
                pace = (now - self.first[1]) / done
                left = f", at most {pace * (progress.epochs - progress.epoch):.0f} s left"
            try:
                print(f"epoch {progress.epoch} of at most {progress.epochs}: {text}{left}", flush=True)
            except OSError as error:
                self.error = error
            self.printed_at = now
