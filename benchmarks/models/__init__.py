"""Real models from eight libraries with tiny configs and random weights; nothing is downloaded."""

from benchmarks.models import (
    computer_vision,
    diffusion,
    graph,
    hugging_face,
    image,
    segmentation,
    vision_transformer,
)
from benchmarks.models.entry import Entry

ENTRIES: dict[str, Entry] = {
    entry.key: entry
    for room in (
        hugging_face,
        image,
        vision_transformer,
        graph,
        diffusion,
        segmentation,
        computer_vision,
    )
    for entry in room.ENTRIES
}
