"""The suite "peaks": what the card can do at best, against which every other time is held."""

from rich.console import Console
from rich.table import Table

from ..measure.environment import Watch
from ..measure.peaks import measure_peaks
from ..measure.roofline import rate
from . import Options, Run


def bench(options: Options, console: Console) -> bool:
    """Measures the peaks, prints them and, if asked to, saves them."""
    with Watch() as watch:
        records = measure_peaks()
    table = Table("", "median µs", "a second", box=None)
    for record in records:
        unit = "TB" if record["case"] == "copy" else "TFLOP"
        table.add_row(record["case"], f"{record['median_us']:,.1f}", f"{rate(record) / 1e12:,.2f} {unit}")
    console.print(table)
    if options.save:
        run = Run("peaks", watch)
        run.save(records)
        console.print(f"saved as {run.name} in {run.path}", soft_wrap=True)
    return True
