"""Branches on tensors, in every form that Python has for one; each function has one."""

from __future__ import annotations


def in_if(x):
    if x.any():
        return x + 1
    return x


def in_elif(x):
    if x is None:
        return 1
    elif x.any():
        return x + 1
    return x


def in_not(x):
    if not x.any():
        return x
    return x + 1


def in_and(x, ready=True):
    if ready is True and x.any():
        return x + 1
    return x


def in_while(x):
    while x.any():
        x = x - 1
    return x


def in_conditional(x):
    return x + 1 if x.any() else x


def in_lines(x):
    return (
        x + 1
        if x.any()  # between two others
        else x
    )


def in_or(x):
    return (x.any() or 1) + x


def in_lambda(x):
    return (lambda y: y if y.any() else -y)(x)


def in_comprehension(x):
    return [y for y in (x, x) if y.any()]


def in_case(x):
    match 3:
        case 3 if x.any():
            return x + 1
    return x
