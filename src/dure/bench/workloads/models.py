"""Defines the networks that the workloads run, with random weights: only the shapes matter."""

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class Block(nn.Module):
    """Pre-norm transformer block; with a cache it decodes one token against stored keys, values."""

    def __init__(self, width: int, heads: int, causal: bool = False) -> None:
        super().__init__()
        self.heads, self.causal = heads, causal
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor, cache: Tensor | None = None) -> Tensor:
        batch, tokens, width = x.shape
        qkv = self.qkv(self.norm1(x)).view(batch, tokens, 3, self.heads, width // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        if cache is not None:
            cache[0, :, :, -1:].copy_(k)
            cache[1, :, :, -1:].copy_(v)
            k, v = cache[0], cache[1]  # the one query comes last and sees every key
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal and cache is None)
        x = x + self.proj(mixed.transpose(1, 2).reshape(batch, tokens, width))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class LanguageModel(nn.Module):
    """Token and position embeddings, blocks, and a linear head over the vocabulary."""

    def __init__(self, layers: int, width: int, heads: int, vocabulary: int, context: int) -> None:
        super().__init__()
        self.token, self.position = nn.Embedding(vocabulary, width), nn.Embedding(context, width)
        self.blocks = nn.ModuleList(Block(width, heads, causal=True) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens: Tensor, positions: Tensor, cache: Tensor | None = None) -> Tensor:
        x = self.token(tokens) + self.position(positions)
        for i, block in enumerate(self.blocks):
            x = block(x) if cache is None else block(x, cache[i])
        return self.head(self.norm(x))


class Bert(nn.Module):
    """Embeddings, a post-norm encoder, and a two-class linear head on the first token."""

    def __init__(self, layers: int, width: int, heads: int, vocabulary: int, context: int) -> None:
        super().__init__()
        self.token, self.position = nn.Embedding(vocabulary, width), nn.Embedding(context, width)
        self.encoder = post_norm_encoder(layers, width, heads, "gelu")
        self.head = nn.Linear(width, 2)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.head(self.encoder(self.token(tokens) + self.position.weight)[:, 0])


class Dlrm(nn.Module):
    """Bags of embeddings, pairwise dot products, and two small MLPs."""

    def __init__(self, tables: int, rows: int, width: int) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.EmbeddingBag(rows, width, mode="sum") for _ in range(tables))
        self.bottom = mlp(13, 512, 256, width)
        self.pairs = nn.Buffer(torch.triu_indices(tables + 1, tables + 1, offset=1))
        self.top = mlp(width + self.pairs.shape[1], 512, 256, 1)

    def forward(self, dense: Tensor, sparse: Tensor) -> Tensor:
        low = self.bottom(dense)
        bags = [table(ids) for table, ids in zip(self.tables, sparse, strict=True)]
        stacked = torch.stack([low, *bags], dim=1)
        dots = torch.bmm(stacked, stacked.transpose(1, 2))[:, self.pairs[0], self.pairs[1]]
        return self.top(torch.cat([low, dots], dim=1))


class UNet(nn.Module):
    """Four resolutions, two convolutions each way, joined by skip connections."""

    def __init__(self, channels: Sequence[int] = (64, 128, 256, 512)) -> None:
        super().__init__()
        self.down = nn.ModuleList(conv_pair(a, b) for a, b in pairwise((3, *channels)))
        ups = list(pairwise(channels[::-1]))
        self.rise = nn.ModuleList(nn.ConvTranspose2d(a, b, 2, stride=2) for a, b in ups)
        self.up = nn.ModuleList(conv_pair(2 * b, b) for _, b in ups)
        self.out = nn.Conv2d(channels[0], 3, 1)

    def forward(self, x: Tensor) -> Tensor:
        skips: list[Tensor] = []
        for i, block in enumerate(self.down):
            x = block(F.max_pool2d(x, 2) if i else x)
            skips.append(x)
        for rise, block, skip in zip(self.rise, self.up, skips[-2::-1], strict=True):
            x = block(torch.cat([rise(x), skip], dim=1))
        return self.out(x)


def mlp(*widths: int) -> nn.Sequential:
    layers = ((nn.Linear(a, b), nn.ReLU()) for a, b in pairwise(widths))
    return nn.Sequential(*(layer for pair in layers for layer in pair))


def conv_pair(a: int, b: int) -> nn.Sequential:
    def half(inputs: int) -> list[nn.Module]:
        return [nn.Conv2d(inputs, b, 3, padding=1), nn.GroupNorm(8, b), nn.SiLU()]

    return nn.Sequential(*half(a), *half(b))


def post_norm_encoder(layers: int, width: int, heads: int, activation: str) -> nn.Module:
    layer = nn.TransformerEncoderLayer(
        width, heads, 4 * width, activation=activation, batch_first=True
    )
    return nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)


def resnet50() -> nn.Module:
    import torchvision  # here, so that the other workloads run without it

    return torchvision.models.resnet50(weights=None).cuda().to(memory_format=torch.channels_last)
