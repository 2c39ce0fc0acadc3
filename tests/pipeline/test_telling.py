"""What is told of cases."""

import pytest

from symlab.pipeline.telling import _without_shared


@pytest.mark.parametrize(
    ("names", "told"),
    [
        (["RN1 on mnist", "RN1 on imdb"], ["mnist", "imdb"]),
        (["NC1, RN1 on mnist", "NC2, RN1 on mnist"], ["NC1, RN1 on mnist", "NC2, RN1 on mnist"]),
        (["RN1 on mnist", "RN1 on mnist"], ["mnist", "mnist"]),
    ],
)
def test_names_lose_what_all_share_but_never_their_last_part(names, told):
    assert _without_shared(names) == told
