"""The course in JupyterLab, in a real browser: from the start page to a right answer, and what goes wrong there."""

import re

import pytest

pytest.importorskip("playwright", reason="Playwright is not installed: pip install playwright")

import answers
from jupyterlab_driver import contrasts, scratch
from playwright.sync_api import expect
from tiers import seldom

from common import check
from common.lab import markup

pytestmark = seldom(6)

ENDLESS = '''\
import numpy as np
from common import cuda
kernel = cuda.RawKernel("""
extern "C" __global__ void endless(volatile int* x) {
    while (true) x[0] += 1;
}
""", "endless")
print("launching", flush=True)
kernel((1,), (1,), (np.zeros(1, dtype=np.int32),))'''


def answer(name, kind="solution"):
    """The text of a cell with an exercise's solution, or with the wrong answer of this name."""
    exercise = check.find(name)
    if kind == "solution":
        text = markup.plain(exercise.source, exercise.is_cuda)
    else:
        (text,) = [one.text for one in answers.wrong(exercise) if one.name == kind]
    return (f"%%exercise {name}\n" if exercise.is_cuda else "") + text.rstrip("\n")


def test_a_bold_term_leads_to_its_row_in_the_glossary(lab):
    lab.open("work/03_cudnn_baseline/0_a_gpu_in_an_hour.ipynb")
    lab.notebook.get_by_role("link", name="latency", exact=True).first.click()
    row = lab.markdown.locator("tr", has=lab.page.get_by_role("cell", name="latency", exact=True))
    expect(row).to_be_in_viewport()
    assert lab.page.evaluate("jupyterapp.shell.currentWidget.context.path") == "work/GLOSSARY.md"
    row.get_by_role("link").click()  # to the notebook that introduces it, the learner's copy
    lab.page.wait_for_function("jupyterapp.shell.currentWidget.context.path.startsWith('work/03_cudnn_baseline/0_')")


def test_from_the_start_page_to_a_right_answer(lab):
    lab.open("work/START.md")
    expect(lab.markdown.get_by_role("heading", name="Your course")).to_be_visible()
    lab.markdown.get_by_role("link", name="04 · Kernels").click()
    expect(lab.markdown.get_by_role("heading", name="04 · Kernels")).to_be_visible()
    lab.markdown.locator("a[href*='1_seeing_memory.ipynb']").first.click()
    lab.ready()

    cell = lab.cell("def sectors_of")
    verdict = lab.cell('check.run("sectors_of"', after=cell)
    lab.run(cell)
    expect(lab.run(verdict)).to_contain_text("✗ sectors_of: not started yet")
    lab.write(cell, answer("sectors_of", "bytes_asked"))
    lab.run(cell)
    wrong = lab.run(verdict)
    expect(wrong).to_contain_text("✗ sectors_of")
    expect(wrong).to_be_in_viewport()
    hint = lab.cell("check.hint", after=verdict)
    lab.write(hint, 'check.hint("sectors_of")')  # as the cell says: the # before it is deleted
    expect(lab.run(hint)).to_contain_text("Sectors are cut at multiples of 32 bytes")
    lab.write(cell, answer("sectors_of"))
    lab.run(cell)
    expect(lab.run(verdict)).to_contain_text("✓ sectors_of: passed")

    lab.notebook.get_by_role("link", name="2 Adding two arrays").click()
    lab.page.get_by_role("tab", name="2_add.ipynb").wait_for()


def test_the_formula_of_a_prediction_is_folded_until_it_is_wanted(lab):
    lab.open("work/03_cudnn_baseline/0_a_gpu_in_an_hour.ipynb")
    lab.ready()
    lab.run(lab.cell("%load_ext common.check"))
    question = lab.cell('check.predict("index_in_the_grid"')
    folded = lab.notebook.locator(
        f".jp-Cell[data-windowed-list-index='{int(question.get_attribute('data-number')) + 1}']"
    )
    expect(folded.locator(".jp-Placeholder")).to_be_visible()
    expect(folded.locator(".cm-content")).to_have_count(0)
    lab.write(question, 'check.predict("index_in_the_grid", 3 * 256)')
    expect(lab.run(question)).to_contain_text("It is locked; run the next cell.")
    lab.page.keyboard.press("Shift+Enter")  # the first time has selected it
    expect(folded.locator(".jp-OutputArea")).to_contain_text("Your guess: 768. The answer: 773")
    folded.locator(".jp-Placeholder").click()
    expect(folded.locator(".cm-content")).to_contain_text("block * threads_per_block + thread")


def test_a_milestone_with_the_reference_and_what_the_start_page_says_of_it(lab, server):
    scratch(server[1] / "milestone.ipynb", "check.milestone(1)", "check.use_reference('graph')", "check.milestone(1)")
    lab.open("work/milestone.ipynb")
    lab.ready()
    first = lab.cell("check.milestone(1)")
    expect(lab.run(first)).to_contain_text("graph.py")  # what there is none of yet
    taken = lab.cell("use_reference", after=first)
    lab.run(taken)
    last = lab.run(lab.cell("check.milestone(1)", after=taken))
    expect(last).to_contain_text("✓ milestone 1")
    expect(last).to_contain_text("With the reference's graph.py")


def test_an_endless_kernel_is_interrupted_and_the_next_cell_runs(lab, server):
    scratch(server[1] / "endless.ipynb", ENDLESS, "print(6 * 7)", "print('a table  ' * 40)")
    lab.open("work/endless.ipynb")
    lab.ready()
    endless = lab.cell("endless")
    lab.start(endless)
    expect(endless.locator(".jp-OutputArea")).to_contain_text("launching")
    lab.press("interrupt")
    expect(lab.outputs(endless)).to_contain_text(re.compile("interrupt", re.IGNORECASE))
    expect(lab.run(lab.cell("6 * 7"))).to_have_text("42")
    wide = lab.run(lab.cell("a table")).locator("pre").first
    one_line, scrolls = wide.evaluate("pre => [pre.clientHeight < 40, pre.scrollWidth > pre.clientWidth]")
    assert one_line and scrolls, "a printed line is broken"


def test_a_compile_error_has_a_caret_and_the_editors_line_number(lab, server):
    text = answer("row_sums").replace("float sum = 0.0f;", "float sum = nought;")
    number = next(i for i, line in enumerate(text.split("\n"), 1) if "nought" in line)
    scratch(server[1] / "compile_error.ipynb", text)
    lab.open("work/compile_error.ipynb")
    lab.ready()
    cell = lab.cell("row_sums")
    expect(cell.locator(".cm-lineNumbers")).to_contain_text(str(number))
    output = lab.run(cell)
    expect(output).to_contain_text(re.compile(rf"line {number}\b"))
    lines = output.inner_text().split("\n")
    (caret,) = [i for i, line in enumerate(lines) if re.fullmatch(r"[\s|]*\^~*", line)]
    assert lines[caret].index("^") == lines[caret - 1].index("nought")


def test_after_a_restart_an_exercise_needs_no_other_cell(lab, server):
    scratch(server[1] / "restart.ipynb", "x = 1", answer("row_sums"), "check.run('row_sums', '')", "x")
    lab.open("work/restart.ipynb")
    lab.ready()
    lab.run(lab.cell("x = 1"))
    lab.press("restart")
    lab.page.locator(".jp-Dialog .jp-mod-accept").click()
    lab.ready()
    expect(lab.run(lab.cell("%%exercise"))).to_contain_text("✓ row_sums: passed")
    expect(lab.run(lab.cell("check.run"))).to_contain_text("✗ row_sums")
    expect(lab.run(lab.cell("x", after=lab.cell("check.run")))).to_contain_text("NameError")


def styles(cell):
    """[(word, colour, weight)] of a cell's text as it is shown."""
    return cell.locator(".cm-content").evaluate(
        """content => {
            const walker = document.createTreeWalker(content, NodeFilter.SHOW_TEXT), found = [];
            while (walker.nextNode()) {
                const style = getComputedStyle(walker.currentNode.parentElement);
                for (const word of walker.currentNode.data.match(/\\w+|%%/g) ?? [])
                    found.push([word, style.color, style.fontWeight]);
            }
            return found;
        }"""
    )


KERNEL = """\
// the thread's number isn't a string: for in is not
extern "C" __global__ void twice(const float* in, float* out) {
    for (int i = 0; i < 2; i++) out[i] = 2.0f * in[i];
}"""


def test_cells_in_cuda_are_highlighted_as_cpp(lab, server):
    scratch(server[1] / "colours.ipynb", f"%%exercise row_sums\n{KERNEL}", "# x's\ndef f():\n    return 1")
    lab.open("work/colours.ipynb")
    lab.ready()
    cell, python = lab.cell("%%exercise"), lab.cell("def f")

    def style(word, cell=cell):
        return next((color, weight) for found, color, weight in styles(cell) if found == word)

    expect(cell.locator(".cm-content")).to_have_attribute("data-language", "cpp")
    expect(python.locator(".cm-content")).to_have_attribute("data-language", "python")
    keyword, comment, string = style("def", python), style("x", python), style("C")
    assert style("extern") == keyword == style("const")
    assert style("thread") == style("number") == style("in") == comment
    assert len({style("twice"), style("exercise"), keyword, comment, string}) == 5
    # as they are typed: an answer that becomes CUDA, and one that becomes Python
    lab.write(python, "%%exercise row_sums\n// it's")
    expect(python.locator(".cm-content")).to_have_attribute("data-language", "cpp")
    lab.write(python, "%%exercise amdahl\ndef amdahl(): # it's\n    return 1")
    expect(python.locator(".cm-content")).to_have_attribute("data-language", "python")


def test_cuda_in_files_and_on_markdown_pages_is_highlighted_as_cpp(lab, server):
    (server[1] / "twice.cu").write_text(KERNEL)
    lab.open("work/twice.cu")
    expect(lab.page.locator(".jp-FileEditor .cm-content")).to_have_attribute("data-language", "cpp")
    (server[1] / "twice.md").write_text(f"```cpp\n{KERNEL}\n```\n\n```cuda\n{KERNEL}\n```\n")
    lab.open("work/twice.md")
    for number in (0, 1):
        words = lab.markdown.locator("pre").nth(number).locator("span")
        expect(words.filter(has_text=re.compile("^extern$"))).to_have_count(1)


@pytest.mark.parametrize("theme", ["JupyterLab Light", "JupyterLab Dark"])
def test_messages_can_be_read_in_both_themes(lab, server, theme):
    wrong = answer("row_sums", "swapped_index")
    scratch(server[1] / "themes.ipynb", wrong, answer("row_sums"))
    lab.open("work/themes.ipynb")
    lab.ready()
    lab.theme(theme)
    for text, cell in (("✗ row_sums", lab.cell("%%exercise")), ("✓ row_sums", None)):
        cell = cell or lab.cell("%%exercise", after=lab.cell("%%exercise"))
        output = lab.run(cell)
        expect(output).to_contain_text(text)
        found = contrasts(output)
        assert found and {text: ratio for text, ratio in found.items() if ratio < 4.5} == {}
