"""Train the `digits` weights: MobileNetV2 of width 0.35 on scikit-learn's digits, 48×48.

    python 02_weights/train_digits.py           → out/digits.npz
    cp out/digits.npz common/weights/digits.npz to have the whole course use it

Two or three minutes on one core; the network is too small to gain from a second. The digits of
three of the fourteen forms are held out (common/weights/digits.py tells how writers are told
apart). They take no part in training, nor in choosing when to stop or any setting here: the
schedule is fixed, and its numbers were chosen by `--validate`, which trains without some of
the other forms and tests on those.

With the same seed, number of threads and version of PyTorch, the same kind of processor gives
the same file. Elsewhere sums are added up in another order, and a training run amplifies that
into other weights, as another seed does: seeds 0, 1 and 2 misread 6, 10 and 8 of the 382
held-out digits (98.4, 97.4 and 97.9 %). Seed 0 was the default before any of them was
measured, and is what the course uses.

What makes 1,415 small pictures enough is augmentation: every digit is seen turned, slanted,
stretched, moved, bent (P. Simard et al., "Best Practices for Convolutional Neural Networks
Applied to Visual Document Analysis", ICDAR 2003) and written with another pen, never twice the
same. The rest is today's usual recipe: AdamW with a one-cycle learning rate, label smoothing,
and an exponential moving average of the weights.
"""

from pathlib import Path
from typing import Annotated

import numpy as np
import torch
import torch.nn.functional as F
import typer
from rich.console import Console
from rich.table import Table
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from tqdm import tqdm

from common import weights
from common.topology import MobileNetV2

SOURCE = weights.source("digits")
BATCH = 64
LEARNING_RATE = 3e-3
WEIGHT_DECAY = 0.05
LABEL_SMOOTHING = 0.1
EMA_DECAY = 0.99


def augment(x: torch.Tensor, random: torch.Generator) -> torch.Tensor:
    """Each digit (N, 1, S, S), −1 … 1, as somebody else might have written it."""
    n, _, size, _ = x.shape

    def uniform(limit: float, *shape: int) -> torch.Tensor:
        return (torch.rand(n, *shape, generator=random) * 2 - 1) * limit

    # turn by up to 15°, stretch by up to 20 %, slant, move by up to an eighth of half the
    # picture
    angle, slant = uniform(0.26), uniform(0.3)
    wide, high = uniform(0.18).exp(), uniform(0.15).exp()
    cos, sin = angle.cos(), angle.sin()
    turn = torch.stack([cos, -sin, sin, cos], 1).view(n, 2, 2)
    stretch = torch.stack([wide, slant, torch.zeros(n), high], 1).view(n, 2, 2)
    affine = torch.cat([turn @ stretch, uniform(0.12, 2, 1)], 2)
    grid = F.affine_grid(affine, [n, 1, size, size], align_corners=False)

    # bend: a smooth field of displacements through 5 × 5 random ones
    bend = torch.randn(n, 2, 5, 5, generator=random) * 0.06
    bend = F.interpolate(bend, (size, size), mode="bicubic", align_corners=True)
    x = F.grid_sample(
        x, grid + bend.permute(0, 2, 3, 1), padding_mode="border", align_corners=False
    )

    # a softer or harder pen
    return ((x + 1) / 2).clamp(0, 1) ** uniform(0.4, 1, 1, 1).exp() * 2 - 1


def train(images: np.ndarray, labels: np.ndarray, epochs: int, seed: int) -> torch.nn.Module:
    """The averaged network, in evaluation mode.

    images: (N, 8, 8), 0 … 16. labels: (N,), 0 … 9.
    """
    torch.manual_seed(seed)  # initial weights and dropout
    random = torch.Generator().manual_seed(seed)  # order and augmentation
    x = torch.from_numpy(weights.digits_input(images))[:, :1]
    y = torch.from_numpy(labels)

    model = MobileNetV2(SOURCE.width, SOURCE.num_classes).to(memory_format=torch.channels_last)
    average = AveragedModel(
        model, multi_avg_fn=get_ema_multi_avg_fn(EMA_DECAY), use_buffers=True
    )
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=LEARNING_RATE, weight_decay=WEIGHT_DECAY
    )
    steps = max(
        1, len(x) // BATCH
    )  # an epoch; the few digits left over differ from epoch to epoch
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, LEARNING_RATE, total_steps=epochs * steps, pct_start=0.15
    )
    progress = tqdm(range(epochs), desc="training", unit="epoch")
    for _ in progress:
        order = torch.randperm(len(x), generator=random)
        for step in range(steps):
            batch = order[step * BATCH : (step + 1) * BATCH]
            inputs = augment(x[batch], random).expand(-1, 3, -1, -1)
            scores = model(inputs.contiguous(memory_format=torch.channels_last))
            loss = F.cross_entropy(scores, y[batch], label_smoothing=LABEL_SMOOTHING)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            average.update_parameters(model)
        progress.set_postfix(loss=f"{loss.item():.3f}")
    return average.module.eval()


@torch.inference_mode()
def mistakes(model: torch.nn.Module, images: np.ndarray, labels: np.ndarray) -> int:
    """How many of the digits the network reads wrongly."""
    scores = model.eval()(torch.from_numpy(weights.digits_input(images)))
    return int((scores.argmax(1).numpy() != labels).sum())


def folded_model(parameters: weights.Parameters) -> torch.nn.Module:
    """The network with these folded parameters, in float32 whatever they are stored in."""
    model = MobileNetV2(SOURCE.width, SOURCE.num_classes, batch_norm=False)
    state = {
        name: torch.from_numpy(array.astype(np.float32)) for name, array in parameters.items()
    }
    model.load_state_dict(state)
    return model


def main(
    out: Annotated[Path, typer.Option(help="where the weights go (.npz)")] = Path(
        "out/digits.npz"
    ),
    epochs: Annotated[int, typer.Option(min=1)] = 80,
    seed: int = 0,
    threads: Annotated[
        int, typer.Option(min=1, help="CPU threads; changes the last bits")
    ] = 1,
    validate: Annotated[
        str, typer.Option(help="forms (such as 0,4,8) to test on instead")
    ] = "",
    limit: Annotated[int, typer.Option(help="train with the first so many digits only")] = 0,
) -> None:
    """Train the digits weights, fold them, store them as fp16, and measure the stored ones."""
    torch.set_num_threads(threads)
    torch.use_deterministic_algorithms(True)
    split = weights.digits_split()
    images, labels = split.train_images, split.train_labels
    test_images, test_labels = split.test_images, split.test_labels
    if validate:
        left_out = np.isin(split.train_forms, [int(form) for form in validate.split(",")])
        test_images, test_labels = images[left_out], labels[left_out]
        images, labels = images[~left_out], labels[~left_out]
    if limit:
        images, labels = images[:limit], labels[:limit]

    model = train(images, labels, epochs, seed)
    _, parameters = weights.fold_state_dict(
        model.state_dict(), SOURCE.width, SOURCE.num_classes, SOURCE.input_size
    )
    out.parent.mkdir(parents=True, exist_ok=True)
    weights.save(out, {name: array.astype(np.float16) for name, array in parameters.items()})
    stored = weights.load(out)

    table = Table(
        "weights", "digits", "wrong", "accuracy", title="by writers left out of training"
    )
    rows = {
        "trained": model,
        "folded": folded_model(parameters),
        f"fp16, {out}": folded_model(stored),
    }
    for name, network in rows.items():
        wrong, count = mistakes(network, test_images, test_labels), len(test_labels)
        table.add_row(name, f"{count}", f"{wrong}", f"{1 - wrong / count:.2%}")
    Console().print(table)
    print(f"{out}: {out.stat().st_size / 1e6:.2f} MB, trained with {len(labels)} digits")


if __name__ == "__main__":
    typer.run(main)
