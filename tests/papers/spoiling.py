"""How rooms spoil their stories' tables, so that claims fail: a column is changed in some rows."""

import numpy as np


def change(column, value, **where):
    """A function that sets a column to a value, or to what a function makes of the rows, where others have these."""

    def spoil(table):
        rows = np.ones(len(table), dtype=bool)
        for name, wanted in where.items():
            rows &= np.isin(table[name], wanted)
        assert rows.any()
        changed = value(table) if callable(value) else value
        table[column] = table[column].where(~rows, changed)

    return spoil


def times(column, factor, **where):
    return change(column, lambda rows: factor * rows[column], **where)


def plus(column, more, **where):
    return change(column, lambda rows: rows[column] + more, **where)
