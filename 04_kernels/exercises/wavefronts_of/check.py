import numpy as np

from common.check import expect


def check(wavefronts_of):
    random = np.random.default_rng()

    def compare(case, words, hint):
        words = [int(word) for word in words]
        want = max(len({word for word in words if word % 32 == bank}) for bank in range(32))
        expect(wavefronts_of(words), want, what=f"wavefronts_of({case})", hint=hint)

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
    compare("[]", [], "no active thread, no pass")
