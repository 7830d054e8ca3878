"""How far a training is: a progress bar on a terminal, a plain line now and then elsewhere."""

import sys
import time

from pna.training.run import Progress

__all__ = ["Report"]


class Report:
    """Called after every epoch; `every`: seconds between two lines."""

    def __init__(self, every: float) -> None:
        self.every = every

    def __enter__(self) -> "Report":
        self.bar, self.said, self.first = None, 0.0, None
        self.unheard: OSError | None = None  # where nobody reads the lines, or the disk that takes them is full
        return self

    def __exit__(self, *_: object) -> None:
        if self.bar is not None:
            self.bar.close()

    def __call__(self, progress: Progress) -> None:
        """Says how far it is, if it is time to."""
        text = f"best validation {progress.best:.5f}, {progress.running} of {progress.replicas} replicas running"
        if sys.stderr.isatty():
            from tqdm import tqdm

            self.bar = self.bar or tqdm(total=progress.epochs, initial=progress.epoch - 1, unit="epoch")
            self.bar.set_postfix_str(text, refresh=False)
            self.bar.update()
            return
        now = time.monotonic()
        self.first = self.first or (progress.epoch, now)
        if now - self.said >= self.every or progress.epoch == progress.epochs:
            left = ""
            if done := progress.epoch - self.first[0]:  # after the first epoch no pace is known
                pace = (now - self.first[1]) / done
                left = f", at most {pace * (progress.epochs - progress.epoch):.0f} s left"
            try:
                print(f"epoch {progress.epoch} of at most {progress.epochs}: {text}{left}", flush=True)
            except OSError as error:
                self.unheard = error
            self.said = now
