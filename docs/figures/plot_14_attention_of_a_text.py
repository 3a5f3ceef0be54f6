"""
Attention in a text
===================

The same core reads text. A small language model, trained on a toy grammar, and the weights of its heads: rows
attend. Real sentences, beside position and frequency: :doc:`/core/real-sentences`.
"""

import matplotlib.pyplot as plt
import numpy as np

from peerattn.render import figure_style, weight_colours
from peerattn.sequence import LanguageModel

rng = np.random.default_rng(0)
verbs = {"firm": "sells", "bank": "lends", "fund": "buys"}
text = " ".join(f"the {who} {verbs[who]} ." for who in rng.choice(list(verbs), 600))
model = LanguageModel(
    tokenizer="words", n_layers=1, n_heads=2, d_model=16, block_size=16, random_state=0
).fit(text)
seen = model.attention("the bank lends . the firm sells")

with figure_style():
    figure, axes = plt.subplots(1, 2, figsize=(8.4, 3.8), sharey=True)
    for head, ax in enumerate(axes):
        ax.imshow(seen.matrix(head=head), cmap=weight_colours(), vmin=0, vmax=1)
        ax.set_xticks(range(len(seen.keys)), seen.keys, rotation=60, ha="right")
        ax.set_yticks(range(len(seen.queries)), seen.queries)
        ax.set(title=f"head {head + 1}", xlabel="attended to")
    axes[0].set_ylabel("attends")
print(model.generate("the bank ", 6))
