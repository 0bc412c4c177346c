"""Precompiled code is used, gives the same answers as numba, and is not used if anything does not match."""

import pytest

from native_tree import Answer, Tree, make_tree
from poli.native.bundle import Bundle, bundled


@pytest.fixture(scope="module")
def plain(tmp_path_factory) -> tuple[Tree, dict[str, Answer]]:
    """A tree with precompiled code, and numba's answers from compiling it."""
    tree, cache = make_tree(tmp_path_factory.mktemp("tree")), tmp_path_factory.mktemp("cache")
    answers = {what: tree.run(what, cache, POLI_NATIVE="off") for what in ("sample", "package")}
    tree.compile(cache)
    return tree, answers


@pytest.fixture
def tree(plain, tmp_path) -> Tree:
    """A copy that a test may damage."""
    return plain[0].copy(tmp_path / "tree")


def changed(tree: Tree, **made_for: str) -> None:
    """As if the code had been compiled for another machine."""
    bundle = Bundle(lambda: tree.compiled.open("rb"))
    overloads = [bundle.overload(*key) for key in bundle.overloads()]
    tree.compiled.write_bytes(bundled(bundle.made_for | made_for, overloads))


@pytest.mark.parametrize("what", ["sample", "package"])
def test_precompiled_code_is_used_and_gives_the_answers_of_numba(plain, tmp_path, what):
    tree, expected = plain
    answer = tree.run(what, tmp_path)
    assert expected[what].compiled > 0  # the control: without it numba compiles, and reports it
    assert expected[what].stderr.count("\n") == 1
    assert "up to a minute" in expected[what].stderr
    assert (answer.compiled, answer.stderr) == (0, "")
    assert answer.loaded > 0
    assert answer.results == expected[what].results  # to the last bit
    assert not (tmp_path / "poli").exists()


def test_code_compiled_by_numba_is_cached_for_the_next_process(plain, tmp_path):
    tree, expected = plain
    assert tree.run("sample", tmp_path, POLI_NATIVE="off").compiled > 0
    again = tree.run("sample", tmp_path, POLI_NATIVE="off")
    assert (again.compiled, again.stderr, again.results) == (0, "", expected["sample"].results)
    assert again.loaded > 0


def test_a_new_kernel_is_linked_with_compiled_ones(plain, tmp_path):
    answer = plain[0].run("linked", tmp_path)
    assert answer.results == [3.0 * 15.0 + 9.0 * 15.0]
    assert answer.compiled == 1  # only the new one


@pytest.mark.parametrize("file", ["sample.py", "sample_constant.py"])
def test_old_code_does_not_run_for_a_changed_source(tree, plain, tmp_path, file):
    path = tree.package / file
    path.write_text(path.read_text().replace("3.0", "5.0").replace("total = 0.0", "total = 1.0"))
    answer = tree.run("sample", tmp_path)
    assert answer.results[0] == {"sample.py": 46.0, "sample_constant.py": 75.0}[file]
    assert answer.compiled > 0
    assert f"{file} has changed since the kernels were compiled" in answer.stderr
    assert answer.stderr.count("\n") == 1


def test_an_unrelated_change_recompiles_nothing(tree, plain, tmp_path):
    path = tree.package / "voxels.py"
    path.write_text(path.read_text() + "\n# a remark\n")
    answer = tree.run("sample", tmp_path)
    assert (answer.compiled, answer.stderr) == (0, "")
    assert answer.loaded > 0
    assert answer.results == plain[1]["sample"].results


@pytest.mark.parametrize(
    ("made_for", "reason"),
    [
        ({"numba": "0.1"}, "is for numba 0.1"),
        ({"features": "+sse9"}, "is for a CPU with sse9"),
    ],
)
def test_code_for_other_machines_is_not_used(tree, plain, tmp_path, made_for, reason):
    changed(tree, **made_for)
    answer = tree.run("sample", tmp_path)
    assert answer.compiled > 0
    assert answer.results == plain[1]["sample"].results
    assert reason in answer.stderr


def test_other_settings_of_numba_compile(tree, plain, tmp_path):
    for settings in ({"NUMBA_BOUNDSCHECK": "1"}, {"NUMBA_CPU_NAME": "generic"}):
        answer = tree.run("sample", tmp_path, **settings)
        assert answer.compiled > 0
        assert answer.results == plain[1]["sample"].results


def test_other_types_compile(plain, tmp_path):
    answer = plain[0].run("sample", tmp_path, dtype="float32")
    assert answer.compiled > 0
    assert "was not compiled for" in answer.stderr


@pytest.mark.parametrize("spoil", [lambda content: content[:1000], lambda content: flip(content)])
def test_damaged_code_is_not_run(tree, plain, tmp_path, spoil):
    tree.compiled.write_bytes(spoil(tree.compiled.read_bytes()))
    answer = tree.run("sample", tmp_path)
    assert answer.compiled > 0
    assert answer.results == plain[1]["sample"].results


def flip(content: bytes) -> bytes:
    """Invert every byte after the header."""
    length = int.from_bytes(content[14:22], "little")
    return content[: 22 + length] + bytes(byte ^ 255 for byte in content[22 + length :])


def test_the_note_about_compiling_can_be_silenced(plain, tmp_path):
    answer = plain[0].run("sample", tmp_path, POLI_NATIVE="off", POLI_NATIVE_NOTICE="0")
    assert answer.compiled > 0  # to make sure that there was something to report
    assert answer.stderr == ""
