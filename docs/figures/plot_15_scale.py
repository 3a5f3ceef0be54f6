"""
Memory against the number of periods
====================================

A panel in files is read one cross-section at a time, and ``fit`` reads a sample of whole periods: peak memory does not grow
with the number of periods. Time does, in proportion. Measured by ``benchmarks/streaming.py`` on 22 November 2026; the guide to
large panels has later figures.
"""

import json
from pathlib import Path

import matplotlib.pyplot as plt

from peerattn.render import INK, PALETTE, figure_style

stored = Path("benchmarks", "results", "streaming.json")
results = next((folder / stored for folder in Path.cwd().parents if (folder / stored).exists()), stored)
rows = json.loads(results.read_text(encoding="utf-8"))["rows"]


def number(text):
    return float(text.replace(",", ""))


with figure_style():
    figure, axes = plt.subplots(1, 2, figsize=(7.2, 3.2), layout="constrained")
    for ax, column in zip(axes, ("peak memory, MiB", "CPU seconds"), strict=True):
        for stage, color in zip(("fit", "predict", "network"), PALETTE, strict=False):
            mine = [row for row in rows if row["stage"] == stage]
            x = [number(row["periods"]) for row in mine]
            ax.plot(x, [number(row[column]) for row in mine], "o-", color=color, label=stage)
        ax.set(xlabel="periods", ylabel=column, ylim=(0, None), xscale="log")
        ax.set_xticks(x, [f"{t:.0f}" for t in x])
        ax.minorticks_off()
    fits = [row for row in rows if row["stage"] == "fit"]
    size = [number(row["file, MiB"]) for row in fits]
    axes[0].plot([number(row["periods"]) for row in fits], size, "--", color=INK, label="the file")
    axes[0].legend(loc="center right", bbox_to_anchor=(1, 0.7))
