"""Calls with a mistake each: every type checker marks every line that ends with two hashes."""

import lablib
from lablib.inference import voting

import mlx.core as mx

model, tokenizer = lablib.load("target")
ids = [1, 2, 3]

lablib.no_such_name  ##
lablib.inference.no_such_name  ##
voting.majority_votes(model, ids)  ##
lablib.generate(model, tokenizer, "Once", max_tokens="ten")  ##
lablib.generate(model, tokenizer, "Once", nonsense=3)  ##
lablib.generate(model, tokenizer, "Once", temp=0.8)  ##
lablib.generate(model, tokenizer, "Once", max_new_tokens=8)  ##
lablib.generate(model, tokenizer, "Once", temperature="warm")  ##
lablib.generate(model, tokenizer, ["Once", "Late"], cache=[])  ##
lablib.generate(model, tokenizer, 3.5)  ##
lablib.generate(model, tokenizer, "Once").texts  ##
lablib.generate(model, tokenizer, ["Once", "Late"]).tokens  ##
lablib.stream(model, tokenizer, "Once", stop=3)  ##
lablib.sample_n(model, ids, "four")  ##
lablib.sample_n(model, ids, 4, extract=len)  ##
lablib.sample_n(model, ids, 4).text  ##
lablib.best_of_n(model, ids, 4, score_fn=3)  ##
lablib.majority_vote(model, ids, 8, max_token=5)  ##
lablib.vote_until(model, ids, 8, max_batch=4)  ##
lablib.vote_until(model, ids, 8, confidence="high")  ##
lablib.speculative_decode(model, model, ids, drafts=4)  ##
lablib.TokenIterator(model, ids, seed="x")  ##
lablib.SamplerOptions(top_k=0.5)  ##
lablib.load("target", dtype="float16")  ##
lablib.load("target", dtyp=mx.float16)  ##
lablib.load_head("target-head")  ##
lablib.AsyncMlxLM(model, tokenizer, batchsize=3)  ##
lablib.Engine(model, tokenizer, max_rows=3)  ##
lablib.Engine(model, tokenizer).stream("Once", tempratur=1.0)  ##
lablib.SamplerOptions(temp=0.5)  ##
lablib.generate(model, tokenizer, "Once", seed=[1, 2])  ##
lablib.sample_n(model, ids, 4, stop=3)  ##
lablib.sample_many(model, [ids], [lablib.SamplerOptions()], temperature=0.5)  ##
lablib.best_of_n(model, ids).score  ##
lablib.best_of_n(model, ids, return_all=True).shape  ##
total: mx.array = lablib.sample_n(model, ids, 4)  ##
