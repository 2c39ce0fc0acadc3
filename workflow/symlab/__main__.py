"""``python -m symlab``: the ``symlab`` command."""

from symlab.cli import main

if __name__ == "__main__":
    main()
