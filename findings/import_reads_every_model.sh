#!/usr/bin/env bash
# transformers 5.24.0: a process that wants a tokenizer only reads the sources of all models, twice.
#
# Expected: names of transformers are imported when they are asked for, so that
# `from transformers import AutoTokenizer` opens the files that a tokenizer needs, some dozens.
# Seen: to know which names there are, it opens each Python file under transformers/models that
# may export one, 1,698 files of 36 MB, once for `transformers` and once more for
# `transformers.models`. That is most of the import's time, in each process anew, and what
# `import mlx_lm` (0.32.2) takes is mostly this. Nothing of it is kept on the disk: a server of
# short processes, or a folder over a network, pays it each time.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet "transformers==5.24.0"
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import os
import sys
import time
from collections import Counter

opened = Counter()


def note(event, arguments):
    if event == "open" and isinstance(arguments[0], str) and arguments[0].endswith(".py"):
        opened[arguments[0]] += f"transformers{os.sep}models{os.sep}" in arguments[0]


sys.addaudithook(note)
begin = time.process_time()
import transformers
from transformers import AutoTokenizer

seconds = time.process_time() - begin
models = {path: n for path, n in opened.items() if n}
twice = sum(n >= 2 for n in models.values())
size = sum(map(os.path.getsize, models)) / 1e6
print(
    f"transformers {transformers.__version__}: {len(models)} files of models opened, {size:.0f} MB,"
    f" {twice} of them twice; the import took {seconds:.1f} s of processor time"
)
assert len(models) > 1000 and twice > 1000, "it has changed"
PYTHON
