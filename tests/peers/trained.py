"""Creates checkpoints of real training runs in `target/cache/trained`; needs PyTorch and about ten minutes per run.

    PYTHON tests/peers/trained.py                # all runs whose checkpoints are missing
    PYTHON tests/peers/trained.py lora16 gpt     # these

PYTHON is the interpreter in `target/cache/torch`, which `cargo xtask gauss` creates. Runs use one thread and fixed
seeds, so the same processor, Python and PyTorch give the same bits. `tests/peers/sizes.py` and
`tests/peers/family.py` measure the checkpoints that exist.
"""

import argparse
import ast
import pathlib
import sysconfig

import numpy as np
import torch
import torch.nn.functional as functional
from tokenizers import Tokenizer
from transformers import BertConfig, BertModel

from corpus import SEED, checkpoint
from corpus.base_model import floats, folder
from corpus.trained import CACHE

BATCH = 16
TOKENS = 32
TEMPERATURE = 0.05
LEARNING_RATE = 5e-5
ADAPTER_LEARNING_RATE = 1e-3
WEIGHT_DECAY = 0.01


def docstrings():
    """(first line, rest) of the docstrings in Python's standard library, in file order."""
    found = []
    for path in sorted(pathlib.Path(sysconfig.get_paths()["stdlib"]).glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8", errors="replace"))):
            if not isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)):
                continue
            first, _, rest = (ast.get_docstring(node) or "").partition("\n")
            if len(rest.split()) >= 8:
                found.append((first, rest.strip()))
    return found


def save(name, tensors):
    """Writes named tensors of a model as a safetensors file."""
    rows = []
    for key, tensor in sorted(tensors.items()):
        tensor = tensor.detach().contiguous()
        half = tensor.dtype == torch.bfloat16
        raw = (tensor.view(torch.int16) if half else tensor).numpy().tobytes()
        rows.append((key, "BF16" if half else "F32", tuple(tensor.shape), raw))
    CACHE.mkdir(parents=True, exist_ok=True)
    part = CACHE / f"{name}.part"
    part.write_bytes(checkpoint(rows))
    part.replace(CACHE / f"{name}.safetensors")
    print(f"{name}: {(CACHE / f'{name}.safetensors').stat().st_size} bytes", flush=True)


class Encoder:
    """all-MiniLM-L6-v2, and batches of pairs of texts for tuning it."""

    def __init__(self, dtype=torch.float32):
        torch.manual_seed(SEED)
        self.model = BertModel(BertConfig.from_pretrained(folder(), attn_implementation="eager"))
        weights = {name: torch.from_numpy(values.copy()) for name, values in floats().items()}
        missing, unexpected = self.model.load_state_dict(weights, strict=False)
        assert not unexpected and all("embeddings" in name for name in missing), (missing, unexpected)
        self.model.to(dtype).train()
        self.names = list(weights)
        self.tokenizer = Tokenizer.from_file(str(folder() / "tokenizer.json"))
        self.tokenizer.enable_truncation(TOKENS)
        self.tokenizer.enable_padding(length=TOKENS)
        self.pairs = docstrings()
        self.random = np.random.default_rng(SEED)

    def _embed(self, texts):
        encoded = self.tokenizer.encode_batch(texts)
        ids = torch.tensor([text.ids for text in encoded])
        mask = torch.tensor([text.attention_mask for text in encoded])
        states = self.model(input_ids=ids, attention_mask=mask).last_hidden_state
        weights = mask.unsqueeze(-1).to(states.dtype)
        return functional.normalize((states * weights).sum(1) / weights.sum(1), dim=-1)

    def loss(self):
        """The contrastive loss: a first line belongs to its own rest, and not to any other in the batch."""
        chosen = [self.pairs[index] for index in self.random.choice(len(self.pairs), BATCH, replace=False)]
        firsts, rests = (self._embed(list(texts)) for texts in zip(*chosen, strict=True))
        return functional.cross_entropy(firsts @ rests.T / TEMPERATURE, torch.arange(BATCH))

    def weights(self):
        state = self.model.state_dict()
        return {name: state[name] for name in self.names}


def steps(model, optimiser, loss, saved, name):
    """Trains, and calls `save` with the number of each step in `saved`."""
    for step in range(1, max(saved) + 1):
        optimiser.zero_grad()
        value = loss()
        value.backward()
        optimiser.step()
        if step % 20 == 0:
            print(f"{name}: step {step}, loss {value.item():.4f}", flush=True)
        if step in saved:
            saved[step](step)


def full():
    """Tunes all weights for 240 steps, and also saves checkpoints after 120 and 130 steps."""
    encoder = Encoder()
    optimiser = torch.optim.AdamW(encoder.model.parameters(), lr=LEARNING_RATE, weight_decay=WEIGHT_DECAY)
    keep = {step: lambda step: save(f"full-{step}", encoder.weights()) for step in (120, 130, 240)}
    steps(encoder.model, optimiser, encoder.loss, keep, "full")


def purebf16():
    """Tunes all weights for 120 steps, with weights and optimiser in bfloat16."""
    encoder = Encoder(torch.bfloat16)
    optimiser = torch.optim.AdamW(encoder.model.parameters(), lr=LEARNING_RATE, weight_decay=WEIGHT_DECAY)
    steps(encoder.model, optimiser, encoder.loss, {120: lambda _: save("purebf16-120", encoder.weights())}, "purebf16")


class Adapter(torch.nn.Module):
    """A linear layer with factors that are trained while the layer is frozen: W + alpha/r · B·A with alpha = 2r."""

    def __init__(self, linear, rank):
        super().__init__()
        self.linear = linear
        self.a = torch.nn.Parameter(torch.empty(rank, linear.in_features))
        self.b = torch.nn.Parameter(torch.zeros(linear.out_features, rank))
        torch.nn.init.kaiming_uniform_(self.a, a=5**0.5)

    def forward(self, states):
        return self.linear(states) + 2 * functional.linear(functional.linear(states, self.a), self.b)

    def change(self):
        return 2 * (self.b @ self.a)


def lora(rank):
    """Trains adapters on all linear layers for 120 steps, and merges them into float32 and, as PEFT does, into
    bfloat16."""
    encoder = Encoder()
    for parameter in encoder.model.parameters():
        parameter.requires_grad_(False)
    adapters = {}
    for path, module in list(encoder.model.named_modules()):
        for child, linear in list(module.named_children()):
            if isinstance(linear, torch.nn.Linear) and "pooler" not in path:
                adapters[f"{path}.{child}.weight"] = adapter = Adapter(linear, rank)
                setattr(module, child, adapter)
    trained = [parameter for adapter in adapters.values() for parameter in (adapter.a, adapter.b)]
    optimiser = torch.optim.AdamW(trained, lr=ADAPTER_LEARNING_RATE, weight_decay=WEIGHT_DECAY)

    def keep(_):
        original = {name: torch.from_numpy(values.copy()) for name, values in floats().items()}
        for dtype, label in ((torch.float32, "f32"), (torch.bfloat16, "bf16")):
            merged = {name: values.to(dtype) for name, values in original.items()}
            for name, adapter in adapters.items():
                merged[name] = merged[name] + adapter.change().detach().to(dtype)
            save(f"lora{rank}-{label}", merged)

    steps(encoder.model, optimiser, encoder.loss, {120: keep}, f"lora{rank}")


class Gpt(torch.nn.Module):
    """A small byte-level language model with 4.9 million weights."""

    WIDTH, LAYERS, HEADS, CONTEXT = 256, 6, 8, 128

    def __init__(self):
        super().__init__()
        self.tokens = torch.nn.Embedding(256, self.WIDTH)
        self.positions = torch.nn.Embedding(self.CONTEXT, self.WIDTH)
        layer = lambda: torch.nn.TransformerEncoderLayer(
            self.WIDTH, self.HEADS, 4 * self.WIDTH, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
        )
        self.layers = torch.nn.ModuleList(layer() for _ in range(self.LAYERS))
        self.norm = torch.nn.LayerNorm(self.WIDTH)
        self.head = torch.nn.Linear(self.WIDTH, 256, bias=False)

    def forward(self, ids):
        states = self.tokens(ids) + self.positions(torch.arange(ids.shape[1]))
        mask = torch.nn.Transformer.generate_square_subsequent_mask(ids.shape[1])
        for layer in self.layers:
            states = layer(states, src_mask=mask, is_causal=True)
        return self.head(self.norm(states))


def gpt():
    """Trains from scratch on Python's standard library, with checkpoints after 400, 410 and 500 steps."""
    torch.manual_seed(SEED)
    random = np.random.default_rng(SEED)
    folder = pathlib.Path(sysconfig.get_paths()["stdlib"])
    text = np.frombuffer(b"".join(path.read_bytes() for path in sorted(folder.glob("*.py"))), np.uint8)
    model = Gpt()
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.1)

    def loss():
        starts = random.integers(0, len(text) - Gpt.CONTEXT - 1, 8)
        batch = torch.tensor(np.stack([text[s : s + Gpt.CONTEXT + 1] for s in starts]).astype(np.int64))
        predicted = model(batch[:, :-1])
        return functional.cross_entropy(predicted.reshape(-1, 256), batch[:, 1:].reshape(-1))

    keep = {step: lambda step: save(f"gpt-{step}", model.state_dict()) for step in (400, 410, 500)}
    steps(model, optimiser, loss, keep, "gpt")


# Name of a run -> (its function, the last checkpoint that it saves).
RUNS = {
    "full": (full, "full-240"),
    "purebf16": (purebf16, "purebf16-120"),
    **{f"lora{rank}": (lambda rank=rank: lora(rank), f"lora{rank}-bf16") for rank in (16, 8, 64)},
    "gpt": (gpt, "gpt-500"),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="*", help=f"{', '.join(RUNS)}; by default those whose checkpoints are missing")
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    for name in options.runs or RUNS:
        run, last = RUNS[name]
        if options.runs or not (CACHE / f"{last}.safetensors").is_file():
            run()


if __name__ == "__main__":
    main()
