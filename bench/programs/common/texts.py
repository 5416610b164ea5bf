"""Made-up texts, and a tokenizer for them that needs no download."""

import random

from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from programs.common.running import Arguments

_SPECIAL = ("<pad>", "<unk>", "<s>", "</s>")

_TEMPLATE = (
    "{% for message in messages %}{{ '<s> ' + message['role'] + ' ' + message['content'] "
    "+ ' </s> ' }}{% endfor %}{% if add_generation_prompt %}{{ '<s> assistant ' }}{% endif %}"
)


class Texts:
    """Texts of one kind, and a tokenizer that knows their words.

    Args:
        given: the program's arguments.
        words: number of words of the vocabulary.
        median: median length of a text, in words.
        longest: maximum length of a text, in words.
    """

    def __init__(
        self, given: Arguments, words: int = 1000, median: int = 32, longest: int = 96
    ) -> None:
        self._shape = given.choose((words, median, longest), (50, 6, 12))
        self.tokens = tokenizer(self._shape[0])

    def sentences(self, count: int, seed: int = 0) -> list[str]:
        return sentences(count, *self._shape, seed)


def tokenizer(words: int) -> PreTrainedTokenizerFast:
    """Build a tokenizer for the words `w0`, `w1`, ..., with a chat template."""
    known = [*_SPECIAL, "user", "assistant", *(f"w{at}" for at in range(words))]
    vocabulary = {word: at for at, word in enumerate(known)}
    made = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    found = PreTrainedTokenizerFast(
        tokenizer_object=made,
        pad_token="<pad>",
        unk_token="<unk>",
        bos_token="<s>",
        eos_token="</s>",
    )
    found.chat_template = _TEMPLATE
    return found


def sentences(count: int, words: int, median: int, longest: int, seed: int = 0) -> list[str]:
    """Return texts with lognormal lengths."""
    chance = random.Random(seed)
    lengths = [
        min(longest, max(4, int(median * chance.lognormvariate(0, 0.6)))) for _ in range(count)
    ]
    return [" ".join(f"w{chance.randrange(words)}" for _ in range(length)) for length in lengths]
