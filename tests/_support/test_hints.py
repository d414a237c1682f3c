"""An argument that has another name in other libraries is named."""

import inspect

import pytest

import sahmc
from sahmc._support.hints import NAMES, NEEDLESS, with_hints


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("seed", "called 'random_seed' here"),
        ("num_samples", "called 'draws' here"),
        ("num_warmup", "called 'tune' here"),
        ("cores", "all chains run at once"),
        ("draw", "called 'draws' here"),
        ("Kernal", "called 'kernel' here"),
        ("colour", "it has model, initvals, model_args"),
    ],
)
def test_the_name_here_is_said(given, said):
    with pytest.raises(TypeError, match=said):
        sahmc.sample(lambda x: -x @ x, **{given: 1})


def test_resume_has_hints_too():
    with pytest.raises(TypeError, match=r"resume\(\) has no argument 'draw': it is called 'draws' here"):
        sahmc.resume("run", draw=3)


def test_names_are_those_of_sample_and_none_is_two_things():
    known = inspect.signature(sahmc.sample).parameters
    assert set(NAMES) <= set(known)
    every = [name for names in NAMES.values() for name in names] + list(NEEDLESS)
    assert len(set(every)) == len(every) and not set(every) & set(known)


def test_a_name_that_the_function_itself_lacks_is_not_advised():
    @with_hints
    def smaller(draws):
        return draws

    assert smaller(draws=3) == 3
    with pytest.raises(TypeError, match=r"no argument 'seed'; it has draws\."):
        smaller(seed=1)
