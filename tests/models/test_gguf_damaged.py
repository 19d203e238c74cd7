"""Damaged GGUF files: every one is refused in a line, and none ends the process."""

import random
import re
import struct
import subprocess
import sys
from pathlib import Path

import lablib

import pytest
from oracles import gguf as oracle
from test_gguf import V, refusal, tiny

LOAD = """
import sys
from pathlib import Path
import lablib
refused = 0
for source in sorted(Path(sys.argv[1]).glob("*.gguf")):
    try:
        lablib.load(source)
    except ValueError as error:
        assert str(source) in str(error) and "\\n" not in str(error), error
        refused += 1
print(refused)
"""
ALIGNED = b"general.alignment"
EXTREMES = (0, 1, 7, 9, 12, 255, 2**31 - 1, 2**31, 2**32 - 1, 2**61, 2**63 - 1, 2**63, 2**64 - 1)


def damaged(whole: bytes, header: int, chance: random.Random) -> bytes:
    """Return a file cut, bent, or with a number that leads nowhere; mostly in its header."""
    how = chance.randrange(6)
    raw = bytearray(whole)
    place = chance.randrange(4, header - 8)
    if how == 0:
        return b"GGUF" + chance.randbytes(400)
    if how == 1:
        return whole[: chance.randrange(len(whole))]
    if how == 2:
        raw[place] ^= 1 << chance.randrange(8)
    elif how == 3:
        raw[place : place + 8] = struct.pack("<Q", chance.choice(EXTREMES))
    elif how == 4:
        raw[place : place + 4] = struct.pack("<I", chance.choice(EXTREMES) % 2**32)
    else:
        del raw[place : place + chance.randrange(1, 9)]
    return bytes(raw)


@pytest.mark.parametrize("kind", ["F32", pytest.param("Q4_0", marks=pytest.mark.thorough)])
def test_none_ends_the_process(tmp_path: Path, kind: str) -> None:
    source, *_ = tiny(tmp_path, kind=kind)
    whole, chance = source.read_bytes(), random.Random(kind)
    header = whole.index(b"tokenizer.ggml.tokens") // 2
    source.unlink()
    tensors = whole.index(b"token_embd.weight")
    for i in range(150):
        if i % 3:  # the keys, or the tensors behind them; the tokens between are most of the header
            raw = damaged(whole, header * 2, chance)
        else:
            raw = whole[:tensors] + damaged(whole[tensors:], 2000, chance)
        (tmp_path / f"{i:03}.gguf").write_bytes(raw)
    command = [sys.executable, "-c", LOAD, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    assert 75 < int(done.stdout) <= 150


def _integers(kind: str, *numbers: int) -> bytes:
    return struct.pack(f"<{len(numbers)}{kind}", *numbers)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"general.alignment": 48}, "a power of 2 from 8 on, got 48"),
        ({"general.nested": [[1], [2]]}, "'general.nested' is of type 9"),
    ],
)
def test_keys_that_are_read_otherwise(tmp_path: Path, keys: dict, message: str) -> None:
    source, *_ = tiny(tmp_path, keys=keys)
    assert message in refusal(source)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (b"GGUF\3\0\0\0", b"GGUF\1\0\0\0", "its version must be 2 or 3, got 1"),
        (b"GGUF\3\0\0\0", b"GGML\3\0\0\0", "it does not begin with GGUF"),
        (b"tokenizer.ggml.model", b"tokenizer.ggml.m\xffdel", "is no UTF-8"),
        # After a name: of which type and how long; or how many sides, and which.
        (ALIGNED + b"\4\0\0\0\x40", ALIGNED + b"\4\0\0\0\0", "from 8 on, got 0"),
        (ALIGNED + b"\4\0\0\0\x40", ALIGNED + b"\15\0\0\0\x40", "is of type 13, which is not read"),
        (b"output_norm.weight\1", b"output_norm.weight\0", "must have 1 to 4 sides, got 0"),
        (b"output_norm.weight\1", b"output_norm.weight\11", "must have 1 to 4 sides, got 9"),
        (b"output_norm.weight\1\0\0\0\x40", b"output_norm.weight\1\0\0\0\0", "the shape [0]"),
    ],
)
def test_bytes_that_lead_nowhere(tmp_path: Path, old: bytes, new: bytes, message: str) -> None:
    source, *_ = tiny(tmp_path, keys={"general.alignment": 64})
    whole = source.read_bytes()
    assert whole.count(old) == 1
    source.write_bytes(whole.replace(old, new))
    assert message in refusal(source)


def test_tensors_beyond_the_file_or_upon_each_other(tmp_path: Path) -> None:
    source, *_ = tiny(tmp_path)
    whole = source.read_bytes()
    at = whole.index(b"output_norm.weight") + len("output_norm.weight") + 4 + 8 + 4
    for offset in (2**64 - 32, 2**63, len(whole), 8):
        source.write_bytes(whole[:at] + _integers("Q", offset) + whole[at + 8 :])
        assert "are not in the" in refusal(source)
    at = whole.index(b"token_embd.weight") + len("token_embd.weight") + 4
    rows = len(whole) // 256  # of all the file's bytes, but for the header
    source.write_bytes(whole[:at] + _integers("Q", 64, rows - 200) + whole[at + 16 :])
    assert re.search("lie upon each other|are not in the", refusal(source))


def test_a_whole_file_stays_whole(tmp_path: Path) -> None:
    """Of whatever type a number is."""
    kinds = "uint8", "int8", "uint16", "int64", "float64"
    everything = {f"general.{kind}": oracle.As(kind, 1) for kind in kinds}
    everything |= {"general.none": [], "general.text": "é", "general.flag": True}
    everything |= {"general.floats": [0.5, 1.5], "general.flags": [True, False]}
    source, *_ = tiny(tmp_path, keys=everything)
    model, tokenizer = lablib.load(source)
    assert model.args.vocab_size == V == len(tokenizer.get_vocab())
