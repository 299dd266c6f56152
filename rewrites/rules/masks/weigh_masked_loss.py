"""`F.mse_loss(a[m], b[m])` reads as many elements as the mask selects, which depends on the data.

TorchDynamo cannot give `a[m]` a shape in its default mode and breaks the graph there. A loss that
is zero for equal arguments can go over the whole tensors, with zeros where nothing is selected;
`cross_entropy` and `nll_loss` ignore targets of their `ignore_index`.

Before:

    loss = F.l1_loss(pred[valid], target[valid]) + F.cross_entropy(logits[valid], labels[valid])

After:

    loss = F.l1_loss(
        torch.where(valid, pred, 0), torch.where(valid, target, 0), reduction="sum"
    ) / valid.sum() + F.cross_entropy(
        torch.where(valid[..., None], logits, 0), torch.where(valid, labels, -100)
    )

Where the mask is `labels != k`, `F.cross_entropy(logits, labels, ignore_index=k)` is shorter, and
unsafe: NaN in a row that is ignored would reach the gradient.

Loss modules (`self.criterion(a[m], b[m])`) too: their options are read from the one place that
makes them. An empty mask gives NaN as before.

Unsafe where the options of a module are not known, where a sum could overflow (float16), and where
shapes are not known.

Refuses: losses that are not zero for zeros (`gaussian_nll_loss`, a margin), a reduction that is not
spelled out, and one argument alone that is selected.
"""

from __future__ import annotations

from dataclasses import replace

from fullgraph.diagnose.taxonomy import Category
from fullgraph.rewrites.analysis import NotApplicable, Site
from fullgraph.rewrites.rule import Refusal, Rewrite, Rule
from fullgraph.rewrites.transforms.masks.flow import find_flow
from fullgraph.rewrites.transforms.masks.ignore_index import ignore_index_rewrite
from fullgraph.rewrites.transforms.masks.losses import Loss
from fullgraph.rewrites.transforms.masks.rewriting import find_sinks, rewrite_flow
from fullgraph.rewrites.transforms.masks.sinks import StoreSink


def rewrite(site: Site) -> Rewrite | Refusal | None:
    found = find_flow(site)
    if found is None or isinstance(found, NotApplicable):
        return None
    if not any(isinstance(end, Loss) for end in find_sinks(found)):
        return None
    if any(isinstance(end, StoreSink) for end in find_sinks(found)):
        return None
    made = rewrite_flow(found, "A loss over the whole tensors has arguments of fixed shape.")
    if isinstance(made, Rewrite):
        return replace(made, shorter=ignore_index_rewrite(found))
    return made


RULE = Rule("FG402", "weigh-masked-loss", frozenset({Category.MASK.value}), rewrite)
