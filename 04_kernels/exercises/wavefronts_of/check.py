import numpy as np

from common.check import expect
from common.check.trials import Slips, seeded


def passes(words, banks=32, bank=lambda word: word, distinct=set):
    words = list(distinct(words))
    return max((sum(bank(other) % banks == bank(word) % banks for other in words) for word in words), default=0)


SLIPS = {
    "a word goes to all threads that want it in the same pass: count different words": lambda words: passes(
        words, distinct=list
    ),
    "word w lies in bank w % 32: words are 4 bytes, so their numbers are those of the banks": lambda words: passes(
        words, bank=lambda word: word // 4
    ),
    "there are 32 banks": lambda words: passes(words, banks=16),
    "the fullest bank decides: banks work at the same time": lambda words: -(-len(set(words)) // 32),
    "passes are asked for, of which one is there without any conflict": lambda words: passes(words) - 1,
    "the fullest bank decides, not how many banks are used": lambda words: len({word % 32 for word in words}),
    "the fullest bank decides: conflicts of different banks do not add up": lambda words: (
        1 + len(set(words)) - len({word % 32 for word in words})
    ),
}


def check(wavefronts_of):
    random, _ = seeded()
    slips = Slips(SLIPS)

    def compare(case, words, hint):
        words = [int(word) for word in words]
        want = max(len({word for word in words if word % 32 == bank}) for bank in range(32))
        got = wavefronts_of(list(words))
        expect(got, want, what=f"wavefronts_of({case})", hint=slips.hint(got, (words,), hint))

    lanes = np.arange(32)
    compare("32 words side by side", lanes, "32 banks, one word each: one pass")
    compare("one word for all", [7] * 32, "a word goes to all threads that want it in the same pass")
    compare("a column of a tile of 32 columns", 32 * lanes, "all in one bank: a pass for each word")
    compare("a column of a tile of 33 columns", 33 * lanes, "word w lies in bank w % 32")
    compare("every second word", 2 * lanes, "16 banks hold two of the words each: two passes")
    compare("every third word", 3 * lanes, "3 and 32 have no common divisor: every bank has one word")
    hint = "the fullest bank decides; the others wait for it"
    compare("four words in bank 0, one in bank 1", [0, 32, 64, 96, 1], hint)
    compare("pairs of threads at words 32 apart", 32 * (lanes // 2), "different words count, not threads")
    for active in (32, 17, 3):
        words = random.integers(0, 256, active)
        compare(f"{active} drawn words", words, hint)
    word = int(random.integers(0, 2**40))
    far = [word, *(word + 2**power for power in (5, 10, 15, 20, 31, 32, 45))]
    compare(far, far, "different words of one bank take a pass each, however far apart they are")
    every = "for each bank the different words that lie in it; the bank with most of them decides"
    for active in (1, 2, 5, 31, 32, 32, 32) * 3:
        top = int(random.choice([40, 200, 12_000, 2**40]))
        words = random.integers(0, top, active) // int(random.choice([1, 2, 32])) * int(random.choice([1, 31, 32, 33]))
        compare(words.tolist(), words, every)
