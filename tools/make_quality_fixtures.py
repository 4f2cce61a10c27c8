#!/usr/bin/env python3
"""Writes tests/fixtures/quality: two tiny random models, a text, tasks, and what Transformers and lm-eval measure of them.

    tools/make_quality_fixtures.py

`expected.json` has the perplexities of the text by each protocol (the guide's loop and GPTQ's over real Transformers,
lm-eval itself, llama.cpp's formula in float64 over the float32 logits of Transformers), and for each file of tasks the
log-likelihood of every choice with acc, acc_norm and acc_bytes of each item, by lm-eval in float32 with a batch of 1.
Files in the form in which data sets are downloaded are scored by lm-eval's own task files, whose data set alone is
replaced. The text and all items are generated here. Needs lm-eval 0.4.13 (tools/requirements.txt).
"""

import json
import math
import os
import random
import re
import runpy
import shutil
import tempfile
from pathlib import Path

os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_OFFLINE="1", HF_DATASETS_OFFLINE="1", DISABLE_MULTIPROC="1",
                  TOKENIZERS_PARALLELISM="false", HF_HOME=tempfile.mkdtemp())  # fmt: skip

import lm_eval
import torch
from lm_eval.models.huggingface import HFLM
from lm_eval.tasks import TaskManager
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import (AutoModelForCausalLM, AutoTokenizer, GPT2Config, GPT2LMHeadModel, LlamaConfig,
                          LlamaForCausalLM, PreTrainedTokenizerFast)  # fmt: skip

OUT = Path(__file__).resolve().parent.parent / "tests/fixtures/quality"
WINDOW = 64
TOKENS = 1000
LM_EVAL_TASKS = Path(lm_eval.__file__).parent / "tasks"

WHO = ["the keeper of the lighthouse", "a young surveyor", "the old ferry", "her brother", "the committee", "the river",
       "a merchant from the north", "every child in the village", "the clockmaker", "our neighbour"]  # fmt: skip
DID = ["carried", "measured", "forgot", "repaired", "described", "sold", "followed", "admired", "painted", "counted"]
WHAT = ["the brass lamp", "three empty barrels", "a map of the coast", "the broken bridge", "seven letters",
        "the harvest", "an unfinished song", "the winter road", "a box of instruments", "the quiet garden"]  # fmt: skip
WHEN = ["before the rain began", "in the year 1874", "without a word", "at half past nine", "under a grey sky",
        "while the tide was turning", "for 12 pounds and 5 shillings", "until the evening"]  # fmt: skip


def sentence(rng):
    who, did, what, when = (rng.choice(words) for words in (WHO, DID, WHAT, WHEN))
    text = rng.choice([f"{who} {did} {what} {when}.", f"{when}, {who} {did} {what}.",
                       f"who {did} {what} {when}? {who} did, or so it was said.",
                       f"{who} — or was it {rng.choice(WHO)}? — {did} {what} {when}."])  # fmt: skip
    return text[0].upper() + text[1:]


def make_text(rng):
    return "\n\n".join(" ".join(sentence(rng) for _ in range(rng.randrange(3, 7))) for _ in range(30)) + "\n"


def make_models(text):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=384, special_tokens=["<s>", "</s>"],
                                  initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()), show_progress=False)  # fmt: skip
    tokenizer.train_from_iterator([text], trainer)
    encoded = tokenizer.encode(text, add_special_tokens=False)
    text = text[: encoded.offsets[TOKENS - 1][1]]
    for kind in ("gpt2", "llama"):
        own = Tokenizer.from_str(tokenizer.to_str())
        bos = "<s>" if kind == "llama" else "</s>"
        if kind == "llama":
            own.post_processor = processors.TemplateProcessing(single="<s> $A", pair="<s> $A <s> $B",
                                                               special_tokens=[("<s>", 0)])  # fmt: skip
        torch.manual_seed(1)
        sizes = {"vocab_size": 384, "initializer_range": 0.25}
        if kind == "llama":
            model = LlamaForCausalLM(LlamaConfig(
                hidden_size=24, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
                max_position_embeddings=WINDOW, bos_token_id=0, eos_token_id=1, tie_word_embeddings=True, **sizes))  # fmt: skip
        else:
            model = GPT2LMHeadModel(GPT2Config(n_positions=WINDOW, n_embd=24, n_layer=2, n_head=4, bos_token_id=1,
                                               eos_token_id=1, **sizes))  # fmt: skip
        model.to(torch.float32).save_pretrained(OUT / kind)
        PreTrainedTokenizerFast(tokenizer_object=own, bos_token=bos, eos_token="</s>").save_pretrained(OUT / kind)
        (OUT / kind / "generation_config.json").unlink(missing_ok=True)
        path = OUT / kind / "tokenizer.json"  # on few lines, which keeps it small
        path.write_text(json.dumps(json.loads(path.read_text()), ensure_ascii=False))
    return text


def guide(model, ids, context, stride):
    total, count, before = 0.0, 0, 0
    for begin in range(0, ids.size(1), stride):
        end = min(begin + context, ids.size(1))
        inputs = ids[:, begin:end]
        targets = inputs.clone()
        targets[:, : -(end - before)] = -100
        with torch.no_grad():
            loss = model(inputs, labels=targets).loss
        valid = (targets != -100).sum().item() - 1
        total, count, before = total + loss.item() * valid, count + valid, end
        if end == ids.size(1):
            break
    return math.exp(total / count)


def gptq(model, ids, window):
    losses = []
    for i in range(ids.numel() // window):
        batch = ids[:, i * window : (i + 1) * window]
        with torch.no_grad():
            logits = model(batch).logits
        losses.append(torch.nn.CrossEntropyLoss()(logits[0, :-1], batch[0, 1:]).float() * window)
    return torch.exp(torch.stack(losses).sum() / (len(losses) * window)).item(), len(losses) * (window - 1)


def losses_from(model, ids, first):
    """Of targets first.. given all before, in float64 from float32 logits."""
    with torch.no_grad():
        logits = model(torch.tensor([ids])).logits[0].double()
    targets = torch.tensor(ids[first:])[:, None]
    return -torch.log_softmax(logits, -1)[first - 1 : -1].gather(1, targets)[:, 0]


def llama_cpp(model, ids, window, bos):
    ids = ([] if bos is None else [bos]) + ids
    losses = []
    for i in range(len(ids) // window):
        chunk = ids[i * window : (i + 1) * window]
        if bos is not None:
            chunk = [bos, *chunk[1:]]
        losses.append(losses_from(model, chunk, window // 2 + 1))
    losses = torch.cat(losses)
    mean = losses.mean().item()
    error = math.sqrt(((losses * losses).mean().item() - mean * mean) / (len(losses) - 1))
    return {"perplexity": math.exp(mean), "error": error * math.exp(mean), "scored": len(losses)}


def llama_cpp_strided(model, ids, window, stride):
    starts = range(0, len(ids) - window, stride)
    losses = torch.cat([losses_from(model, ids[i : i + window], window - stride) for i in starts])
    return {"perplexity": math.exp(losses.mean().item()), "scored": len(losses)}


def perplexities(kind, text):
    model = AutoModelForCausalLM.from_pretrained(OUT / kind, dtype=torch.float32, attn_implementation="eager").eval()
    tokenizer = AutoTokenizer.from_pretrained(OUT / kind)
    plain = tokenizer(text, return_tensors="pt", add_special_tokens=False).input_ids
    usual = tokenizer(text, return_tensors="pt").input_ids
    figures = {"tokens": plain.numel()}
    for bos, ids in {"none": plain, "first": usual}.items():
        for context, stride in ((64, 32), (64, 64), (48, 20)):
            figures[f"hf {context}/{stride} {bos}"] = guide(model, ids, context, stride)
        figures[f"gptq 64 {bos}"] = gptq(model, ids, 64)[0]
        figures[f"llama.cpp strided 48/16 {bos}"] = llama_cpp_strided(model, ids[0].tolist(), 48, 16)
    figures["gptq scored"] = gptq(model, plain, 64)[1]
    figures["llama.cpp 64 none"] = llama_cpp(model, plain[0].tolist(), 64, None)
    if kind == "llama":
        figures["llama.cpp 64 replace"] = llama_cpp(model, plain[0].tolist(), 64, 0)
    return figures


def write_lines(path, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))


def greedy_completions(prompts):
    """Whose tokens are the ones that a model continues the prompt with."""
    found = []
    for kind in ("gpt2", "llama"):
        model = AutoModelForCausalLM.from_pretrained(OUT / kind, dtype=torch.float32).eval()
        tokenizer = AutoTokenizer.from_pretrained(OUT / kind)
        for prompt in prompts:
            ids = tokenizer(prompt, return_tensors="pt").input_ids
            with torch.no_grad():
                new = model(ids).logits[0, -1].argmax().reshape(1, 1)
            completion = tokenizer.decode(new[0])
            whole = tokenizer(prompt + completion).input_ids
            if completion.startswith(" ") and whole == ids[0].tolist() + new[0].tolist():
                found.append({"prompt": prompt, "completion": completion})
    return found


def make_tasks(text, rng):
    long = " ".join(text.split("\n\n")[:3])
    write_lines(OUT / "choices.jsonl", [
        {"prompt": "The keeper of the lighthouse repaired", "choices": ["the brass lamp.", "the harvest.", "seven letters."],
         "answer": 0},
        {"prompt": "Under a grey sky, the old ferry",
         "choices": ["carried three empty barrels.", "sold it.", "described the winter road — or was it a garden?"], "answer": 0},
        {"prompt": "Question: Who repaired the lamp?\nAnswer:", "choices": ["A", "B", "C", "D"], "answer": 2},
        {"prompt": "The clockmaker painted ", "choices": ["the winter road.", "an unfinished song."], "answer": 1},
        {"prompt": "The river\u00a0 ", "choices": ["naïve — déjà vu", "na", "the river the river"], "answer": 1},
        {"prompt": "Her brother forgot", "choices": ["the harvest", "the harvest"], "answer": 1},
        {"prompt": "Her brother forgot", "choices": ["the harvest", "the harvest"], "answer": 0},
        {"prompt": long, "choices": ["The committee.", "Her brother followed the river."], "answer": 1},
        {"prompt": "A young surveyor", "choices": ["measured the broken bridge.", "measured the broken bridges"], "answer": 0},
        {"prompt": "", "choices": ["the river", "seven letters"], "answer": 1},
        {"prompt": "<s>The river", "choices": ["followed", "sold"], "answer": 0},
        {"prompt": "日本の川は", "choices": ["長い", "three empty barrels — été"], "answer": 0},
        # Bytes that the models know equally little: by characters another choice wins than by bytes.
        *({"prompt": "The river", "choices": [one, other], "answer": i % 2} for i, (one, other) in enumerate([
            ("река", "zqxjkv"), ("ζωή", "jjqqz"), ("Größe", "QXZ"), ("水", "zzq"), ("ночь", "KQJX"), ("été", "xx")])),
        *({"prompt": sentence(rng).rsplit(" ", 2)[0], "choices": [rng.choice(WHAT), rng.choice(WHEN), rng.choice(WHO)],
           "answer": rng.randrange(3)} for _ in range(12)),
    ])  # fmt: skip
    write_lines(OUT / "completions.jsonl", [
        {"prompt": " ".join(words[:-1]), "completion": " " + words[-1]}
        for words in (sentence(rng).rstrip(".").split(" ") for _ in range(8))]
        + greedy_completions([sentence(rng).rsplit(" ", 1)[0] for _ in range(60)])[:8])  # fmt: skip
    write_lines(OUT / "downloads/winogrande.jsonl", [
        {"sentence": "The clockmaker sold the lamp to her brother because _ needed a light.", "option1": "the clockmaker",
         "option2": "her brother", "answer": "2"},
        {"sentence": "The ferry could not pass the bridge until _ was repaired.", "option1": "the ferry",
         "option2": "the bridge", "answer": "2"},
        {"sentence": "Our neighbour followed the surveyor, and _ carried the map.", "option1": "our neighbour",
         "option2": "the surveyor", "answer": "1"}])  # fmt: skip
    write_lines(OUT / "downloads/hellaswag.jsonl", [
        {"ind": 1, "activity_label": "Repairing a lamp", "ctx_a": "A keeper opens the brass lamp. [header] The wick [title]",
         "ctx_b": "he Then", "ctx": "unused", "endings": ["trims the wick  [step] slowly.", "sells the river.", "is a map.",
                                                          "counts [title] seven letters."], "label": 0},
        {"ind": 2, "activity_label": "Ferry", "ctx_a": "The ferry leaves at half past nine.", "ctx_b": "", "ctx": "unused",
         "endings": ["It forgets the sky.", "It carries three barrels.", "It is painted.", "It measures été."],
         "label": "1"}])  # fmt: skip
    write_lines(OUT / "downloads/arc.jsonl", [
        {"id": "a", "question": "What did the keeper repair?", "choices": {"text": ["lamp", "road", "song", "harvest"],
                                                                             "label": ["A", "B", "C", "D"]}, "answerKey": "A"},
        {"id": "b", "question": "Who counted the letters?", "choices": {"text": ["the river", "her brother", "a map"],
                                                                          "label": ["1", "2", "3"]}, "answerKey": "2"}])  # fmt: skip
    write_lines(OUT / "downloads/piqa.jsonl", [
        {"goal": "To light the lamp", "sol1": "trim the wick and hold a match to it.", "sol2": "count the letters.", "label": 0},
        {"goal": "To cross the river,", "sol1": "paint a song.", "sol2": "take the old ferry.", "label": 1}])  # fmt: skip
    write_lines(OUT / "downloads/mmlu.jsonl", [
        {"question": " Which of these floats? ", "subject": "abstract_algebra",
         "choices": ["a bridge", "a ferry", "a road", "a song"], "answer": 1},
        {"question": "Which year was it?", "subject": "abstract_algebra", "choices": ["1874", "12", "5", "9"], "answer": 0}])  # fmt: skip
    write_lines(OUT / "downloads/lambada.jsonl", [{"text": sentence(rng).rstrip(".")} for _ in range(4)])
    paragraphs = text.split("\n\n")[:6]
    write_lines(OUT / "pages.jsonl", [{"page": p.replace(",", " ,").replace(" — ", " @-@ ") + " "} for p in paragraphs])


# What the detokenizer of WikiText has rules for, and what they do to each other.
WIKITEXT = [" = Ferry = \n \n The bridge , built in 1874 @-@ 75 , cost 12 @,@ 000 pounds ( or 11 @.@ 9 thousand ) .\n",
            "He said : \" no \" ; she said ' yes ' , the keepers ' lamp . What ? Yes ! { a } [ b ( c ] d )",
            "= = Section = = \n = = = Sub = = = \n = = = = Deep = = = = \n 20 \u00b0 N and N N of it , the river 's",
            "( unclosed [ also { \" odd \" one \" left ' it's '", "a (  ) [\u00a0x\u2003] \"\" ' '", "/' 5/ and /' 12/ s ' t 's",
            " \n  \n a \n b", "= = = = = = =", ""]  # fmt: skip
RAW = " \n = First = \n \n Some text .\n = = Part = = \n More .\n \n = Second = \n \n End\n"


DOWNLOADS = {"winogrande": "winogrande/default.yaml", "hellaswag": "hellaswag/hellaswag.yaml", "arc": "arc/arc_easy.yaml",
             "piqa": "piqa/piqa.yaml", "mmlu": "mmlu/default/mmlu_abstract_algebra.yaml",
             "lambada": "lambada/lambada_openai.yaml"}  # fmt: skip


DROPPED = ("task:", "task_alias", "tag:", "dataset_", "training_split", "validation_split", "test_split", "fewshot",
           "include", "metric_list", "num_fewshot", "should_decont", "doc_to_decont", '"task', '"tag', '"dataset',
           '"include')  # fmt: skip
OF_CHOICES = "metric_list: [{metric: acc}, {metric: acc_norm}, {metric: acc_bytes}]\nmetadata: {version: 1.0}\n"
OF_COMPLETIONS = "metric_list: [{metric: perplexity}, {metric: acc}]\nmetadata: {version: 1.0}\n"


def write_task(folder, name, data, body):
    """A task file of lm-eval whose data are ours."""
    (folder / f"{name}.yaml").write_text(
        f"task: {name}\ndataset_path: json\ndataset_name: null\ndataset_kwargs: {{data_files: {{test: {data}}}}}\n"
        f"training_split: null\nvalidation_split: null\nfewshot_split: null\ntest_split: test\n{body}")  # fmt: skip


def write_download_task(folder, name, path, data):
    """lm-eval's own task file, whose data set alone is replaced."""
    for module in (LM_EVAL_TASKS / path).parent.glob("*.py"):
        shutil.copy(module, folder)
    body = (LM_EVAL_TASKS / path).read_text()
    if path.startswith("mmlu"):
        body += "\n" + (LM_EVAL_TASKS / "mmlu/default/_default_template_yaml").read_text()
    kept = [part for part in re.split(r"\n(?=\S)", body) if not part.startswith((*DROPPED, "metadata"))]
    write_task(folder, name, data, "\n".join(kept) + "\n" + (OF_COMPLETIONS if "lambada" in path else OF_CHOICES))


def task_files(folder, text):
    write_lines(folder / "whole.jsonl", [{"page": text}])
    rolling = "output_type: loglikelihood_rolling\ndoc_to_text: \"\"\nmetric_list: [{metric: word_perplexity}, {metric: byte_perplexity}, {metric: bits_per_byte}]\nmetadata: {version: 1.0}\n"  # fmt: skip
    write_task(folder, "own_whole", folder / "whole.jsonl", rolling + 'doc_to_target: "{{page}}"\n')
    shutil.copy(LM_EVAL_TASKS / "wikitext/preprocess_wikitext.py", folder)
    write_task(folder, "own_pages", OUT / "pages.jsonl", rolling + "doc_to_target: !function preprocess_wikitext.wikitext_detokenizer\n"
               "process_results: !function preprocess_wikitext.process_results\n")  # fmt: skip
    write_task(folder, "own_choices", OUT / "choices.jsonl", 'output_type: multiple_choice\ndoc_to_text: "{{prompt}}"\n'
               'doc_to_choice: "{{choices}}"\ndoc_to_target: answer\n' + OF_CHOICES)  # fmt: skip
    write_task(folder, "own_completions", OUT / "completions.jsonl", 'output_type: loglikelihood\ndoc_to_text: "{{prompt}}"\n'
               'doc_to_target: "{{completion}}"\n' + OF_COMPLETIONS)  # fmt: skip
    for name, path in DOWNLOADS.items():
        write_download_task(folder, f"own_{name}", path, OUT / f"downloads/{name}.jsonl")


def corpora():
    """WikiText detokenized, and the rows that the data set's loader on the Hub makes of a raw file."""
    detokenizer = runpy.run_path(LM_EVAL_TASKS / "wikitext/preprocess_wikitext.py")["wikitext_detokenizer"]
    rows = [line if line.strip() else "" for line in RAW.splitlines(keepends=True)]
    return {"detokenized": [[text, detokenizer({"page": text}), len(re.split(r"\s+", text))] for text in WIKITEXT],
            "raw": RAW, "rows": rows, "joined": "\n\n".join(rows)}  # fmt: skip


def by_lm_eval(kind, add_bos, folder):
    model = HFLM(pretrained=str(OUT / kind), device="cpu", dtype="float32", batch_size=1, add_bos_token=add_bos)
    names = ["own_whole", "own_pages", "own_choices", "own_completions", *(f"own_{name}" for name in DOWNLOADS)]
    manager = TaskManager(include_path=str(folder), include_defaults=False)
    results = lm_eval.simple_evaluate(model, tasks=names, task_manager=manager, log_samples=True, bootstrap_iters=0)
    expected = {}
    for name in names:
        figures = {key.split(",")[0]: value for key, value in results["results"][name].items()
                   if key.endswith(",none") and "stderr" not in key}  # fmt: skip
        samples = sorted(results["samples"][name], key=lambda sample: sample["doc_id"])
        if "word_perplexity" in figures:
            items = [sample["filtered_resps"][0] for sample in samples]
            figures["log_likelihood"] = sum(items)
        else:
            items = [{"log_likelihoods": [response[0] for response in sample["filtered_resps"]],
                      **{key: sample[key] for key in ("acc", "acc_norm", "acc_bytes") if key in sample}}
                     for sample in samples]  # fmt: skip
            figures["items"] = items
        expected[name.removeprefix("own_")] = figures
    return expected


def main():
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir(parents=True)
    rng = random.Random(7)
    text = make_models(make_text(rng))
    (OUT / "text.txt").write_text(text)
    make_tasks(text, rng)
    expected = {"corpora": corpora()}
    with tempfile.TemporaryDirectory() as folder:
        task_files(Path(folder), text)
        for kind in ("gpt2", "llama"):
            expected[kind] = perplexities(kind, text)
            expected[kind]["lm-eval"] = by_lm_eval(kind, None, Path(folder))
        expected["llama"]["lm-eval none"] = {"whole": by_lm_eval("llama", False, Path(folder))["whole"]}
    (OUT / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")
    print(sum(path.stat().st_size for path in OUT.rglob("*") if path.is_file()), "bytes")


if __name__ == "__main__":
    main()
