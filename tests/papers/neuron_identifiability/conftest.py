import pytest

from .story import story


@pytest.fixture
def tables_for():
    """A function from a claim's figure to copies of the tables on which the paper's story is true."""
    return lambda figure: {name: table.copy() for name, table in story(figure).items()}
