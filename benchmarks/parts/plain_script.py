"""The plain script that a whole job is compared with: the raw engines, one after the other, everything at once."""

import json
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

sys.path.insert(0, str(Path(__file__).parent.parent.parent))

from benchmarks.parts.same_work import Outcome, Work, finish, options, since_start
from kgscale.extract.prompt import Task


def main() -> None:
    work = Work(options().parse_args())
    gliner = work.gliner()
    from vllm import LLM

    prompts = work.prompts()
    llm = LLM(**{**prompts.settings, "disable_log_stats": True})
    ready_s = since_start()
    texts = [it.text for it in work.chunks]
    entities = gliner.entities(texts)
    asked = [(prompts.both(text), prompts.sampling(Task.BOTH)) for text in texts]
    for text, found in zip(texts, entities, strict=True):
        request = prompts.relations(text, found)
        if request is not None:
            asked.append((request, prompts.sampling(Task.RELATIONS)))
    requests = [{"prompt_token_ids": request} for request, _ in asked]
    outputs = llm.generate(requests, [sampling for _, sampling in asked], use_tqdm=False)
    tokenizer = llm.get_tokenizer()
    with TemporaryDirectory() as folder, (Path(folder) / "rows.jsonl").open("w") as file:
        for it in outputs:
            file.write(json.dumps(tokenizer.decode(it.outputs[0].token_ids)) + "\n")
    tokens = sum(len(it.outputs[0].token_ids) for it in outputs)
    finish(Outcome("plain script", ready_s, since_start(), 3 * len(texts), sum(map(len, entities)), tokens))


if __name__ == "__main__":
    main()
