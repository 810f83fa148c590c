# SPDX-License-Identifier: Apache-2.0
"""Cells of a notebook that run in a sandbox."""

import base64

import pytest
from IPython.core.error import UsageError
from IPython.testing.globalipapp import start_ipython
from IPython.utils.capture import capture_output

import pycordon
from pycordon.adapters import _jupyter_magics, jupyter

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
SHOW = "class Show:\n    def __init__(self, **forms): self.forms = forms\n    def _repr_mimebundle_(self, **_): return self.forms\n    def __repr__(self): return 'shown'\n"
SCRIPT = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def shell():
    return start_ipython()


@pytest.fixture(autouse=True)
def loaded(shell):
    shell.extension_manager.load_extension("pycordon.adapters.jupyter")
    jupyter.configure()
    yield
    shell.extension_manager.unload_extension("pycordon.adapters.jupyter")


@pytest.fixture
def cell(shell):
    """Runs a cell: (standard output, standard error, what was shown, the error)."""

    def run(code, line=""):
        with capture_output() as got:
            done = shell.run_cell(f"%%cordon {line}\n{code}" if code is not None else line)
        shown = [output.data for output in got.outputs]
        return got.stdout, got.stderr, shown, done.error_in_exec or done.error_before_exec

    return run


def test_hostile_code(hostile, everything, shell, cell):
    with capture_output() as got:
        shell.run_cell(hostile.python)
    assert hostile.done(got.stdout) == everything
    assert hostile.done(cell(hostile.python)[0]) == set()


def test_state_and_results(cell):
    assert cell("x = 20\nprint('seen')")[0] == "seen\n"
    out, _, shown, error = cell("import sys\nprint('e', file=sys.stderr)\nx + 1")
    assert shown == [{"text/plain": "21"}] and error is None
    assert cell("print('e', file=__import__('sys').stderr)")[1] == "e\n"


def test_html_and_svg_only_where_asked(cell):
    forms = f"{{'text/plain': 'shown', 'text/html': {SCRIPT!r}, 'image/svg+xml': '<svg/>', 'image/png': {PIXEL!r}, 'application/javascript': 'alert(1)', 'text/markdown': {SCRIPT!r}, 'text/latex': 'x'}}"
    png = base64.b64encode(PIXEL).decode()
    safe = {"text/plain": "shown", "image/png": png}
    assert cell(f"{SHOW}\nShow(**{forms})")[2] == [safe]
    assert cell(f"display(Show(**{forms}))")[2] == [safe]
    assert cell(f"Show(**{forms})", "--html")[2] == [{**safe, "text/html": SCRIPT, "image/svg+xml": "<svg/>"}]
    assert cell("Show(**{'image/png': b'<script>'})")[2] == [{"text/plain": "shown"}]


def test_nothing_that_a_terminal_obeys_comes_out(cell):
    """In pieces, too; colours are fine."""
    evil = "\\x1b]0;title\\x07\\x1b[2J\\x9b2J\\rover"
    code = f"import sys\nsys.stdout.write('{evil}\\x1b[31mred\\x1b[0m')"
    out = cell(code)[0]
    assert out == "^[]0;title^G^[[2J\ufffd2J\rover\x1b[31mred\x1b[0m"
    pieces = "import os, time\nfor byte in b'\\x1b[32mgreen\\x1b[0m \\xc3\\xa9 \\x1b[5': os.write(1, bytes([byte])); time.sleep(0.01)"
    assert cell(pieces)[0] == "\x1b[32mgreen\x1b[0m \u00e9 ^[[5"
    assert "\x1b]" not in cell(f"class Evil:\n    def __repr__(self): return '{evil}'\nEvil()")[2][0]["text/plain"]
    error = cell(f"raise ValueError('{evil}')")[3]
    assert "\x1b]" not in "".join(error._render_traceback_()) and "\x1b]" not in str(error)


def test_errors_are_errors_of_the_cell(cell):
    out, _, _, error = cell("print('before')\n1 / 0")
    assert out.startswith("before\n") and isinstance(error, _jupyter_magics.CellError)
    assert "    1 / 0" in "\n".join(error._render_traceback_()) and "_jupyter_magics.py" not in out


def test_languages_share_their_files(cell):
    cell("open('note', 'w').write('from python')")
    assert cell("cat note; greeting=hello", "--language bash")[0] == "from python"
    assert cell("echo $greeting", "-l bash")[0] == "hello\n"
    assert isinstance(cell("x", "-l cobol")[3], UsageError)


def test_timeouts_and_resets(cell):
    cell("x = 1\nopen('note', 'w').close()")
    assert "KeyboardInterrupt" in str(cell("while True: pass", "--timeout 0.3")[3])
    assert cell("x")[2] == [{"text/plain": "1"}]
    assert "NameError" in str(cell("x", "--reset")[3])
    assert cell("import os\nos.listdir('.')")[2] == [{"text/plain": "[]"}]
    assert "ended with status 3" in str(cell("os._exit(3)")[3])
    assert "variables were lost" in cell("1")[1]
    assert isinstance(cell("1", "--no-such-option")[3], UsageError)
    assert cell(None, "%cordon --reset")[3] is None


def test_values_go_in_and_come_out(shell, cell, tmp_path):
    shell.user_ns["given"] = {"a": [1, None], "b": "x"}
    assert cell(None, "%cordon_put given")[3] is None
    cell("found = [given, 1.5]\nraw = b'\\x00'\nclass Bad: pass\nbad = Bad()")
    assert cell(None, "%cordon_get found raw")[3] is None
    assert shell.user_ns["found"] == [{"a": [1, None], "b": "x"}, 1.5] and shell.user_ns["raw"] == b"\x00"
    for line in ("%cordon_get nothing", "%cordon_get bad", "%cordon_put no_such_name"):
        assert isinstance(cell(None, line)[3], UsageError), line
    shell.user_ns["thing"] = object()
    assert isinstance(cell(None, "%cordon_put thing")[3], UsageError)
    cell("1", "--out done")
    assert isinstance(shell.user_ns["done"], pycordon.Execution)


def test_settings(cell, tmp_path):
    (tmp_path / "data.txt").write_text("granted")
    read = f"print(open({str(tmp_path / 'data.txt')!r}).read())"
    assert "FileNotFoundError" in str(cell(read)[3])
    jupyter.configure(fs_read=[str(tmp_path)])
    assert cell(read)[0] == "granted\n"
    with pytest.raises(pycordon.PolicyError):
        jupyter.configure(max_memory_mb="x")
    assert cell(read)[0] == "granted\n"


def test_in_a_notebook(execute):
    _, shown, printed, failed = execute(
        "python3",
        "%load_ext pycordon.adapters.jupyter",
        f"%%cordon\n{SHOW}\nx = 1\nShow(**{{'text/html': {SCRIPT!r}, 'image/png': {PIXEL!r}}})",
        "%%cordon\nprint(x + 1)",
        "%%cordon\nopen('/etc/shadow')",
        allow_errors=True,
    )
    assert sorted(shown[0]["data"]) == ["image/png", "text/plain"]
    assert base64.b64decode(shown[0]["data"]["image/png"]) == PIXEL
    assert printed[0]["text"] == "2\n"
    assert "FileNotFoundError" in failed[0]["evalue"]
